//! Hostile input: what the network, a disk and strangers may do to the bytes.

mod accounts;
mod cuts;
mod damage;
mod fuzz;
mod liar;
mod prefixes;
mod rights;
