//! Makes memprof's tracking allocator the global one, in front of the system's. Linked into test executables that
//! have no global allocator of their own.

extern crate memprof;

#[global_allocator]
static HEAP: memprof::Heap<std::alloc::System> = memprof::Heap::new(std::alloc::System);
