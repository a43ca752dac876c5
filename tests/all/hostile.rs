//! Hostile input: what the network, a disk and strangers may do to the bytes.

mod accounts;
mod ahead;
mod cuts;
mod damage;
mod export;
mod foreign;
mod fuzz;
mod liar;
mod marks;
mod prefixes;
mod rights;
mod shown;
mod suspicions;
