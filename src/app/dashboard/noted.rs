//! A change, written down in the end, however that comes: also if the client has gone, or the store does not say whether it was done.

/// What the store may have been asked for, from before that until it is written down.
pub(super) struct Noted<N: Fn(&str)> {
    note: N,
    open: Option<String>,
}

impl<N: Fn(&str)> Noted<N> {
    /// To be called before the store is asked.
    pub fn asked(note: N, what: String) -> Self {
        let open = Some(what);
        Self { note, open }
    }

    /// The store says that this was done.
    pub fn done(mut self, what: &str) {
        self.open = None;
        (self.note)(what);
    }

    /// The store says that nothing was changed.
    pub fn undone(mut self) {
        self.open = None;
    }
}

impl<N: Fn(&str)> Drop for Noted<N> {
    fn drop(&mut self) {
        if let Some(what) = &self.open {
            (self.note)(&format!("{what}: no answer says that it was done"));
        }
    }
}
