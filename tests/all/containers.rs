//! Real containers with addresses of their own, from the Dockerfile and the compose files as users get them.
//!
//! Where no Docker daemon answers, these tests say on stderr that they were left out. Where no registry can be reached,
//! scripts/base-images makes the images that ours is built on; where it cannot, they are left out, too. One such test runs at a time: they are heavy, and others look at
//! the clock.

mod docker;
mod fleet;
mod form;
mod image;
mod programs;
