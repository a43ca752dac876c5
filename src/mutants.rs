//! Guards: conditions that hold a promise. Under the feature `mutants` a test takes one out at a time, and removing any of
//! them must make a test fail. Without the feature, `guard` is a constant.

#[cfg(feature = "mutants")]
thread_local! {
    static WITHOUT: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) };
    static SEEDED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    static NEXT_ID: std::cell::Cell<Option<String>> = const { std::cell::Cell::new(None) };
}

/// True, unless a test has taken this guard out on this thread.
#[cfg(feature = "mutants")]
pub(crate) fn guard(name: &str) -> bool {
    WITHOUT.get() != Some(name)
}

#[cfg(not(feature = "mutants"))]
pub(crate) const fn guard(_name: &str) -> bool {
    true
}

/// Takes a guard out of every node on this thread, or puts it back.
#[cfg(feature = "mutants")]
pub fn take_out(name: Option<&'static str>) {
    WITHOUT.set(name);
}

/// From now on a seed decides every random number of the nodes on this thread, their ids among them.
#[cfg(feature = "mutants")]
pub fn seed(seed: u64) {
    fastrand::seed(seed);
    SEEDED.set(true);
    NEXT_ID.set(None);
}

/// The next node on this thread that draws an id draws this one.
#[cfg(feature = "mutants")]
pub fn draw_next(id: String) {
    NEXT_ID.set(Some(id));
}

#[cfg(feature = "mutants")]
pub(crate) fn next_id() -> Option<String> {
    NEXT_ID.take()
}

#[cfg(not(feature = "mutants"))]
pub(crate) const fn next_id() -> Option<String> {
    None
}

#[cfg(feature = "mutants")]
pub(crate) fn is_seeded() -> bool {
    SEEDED.get()
}

#[cfg(not(feature = "mutants"))]
pub(crate) const fn is_seeded() -> bool {
    false
}
