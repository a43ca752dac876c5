//! The guards of the node. Under the feature `mutants` a test can take one out, to show that it is missed.

#[cfg(feature = "mutants")]
thread_local! {
    static WITHOUT: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) };
}

/// Always true, but for the guard that a test has taken out on this thread.
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
