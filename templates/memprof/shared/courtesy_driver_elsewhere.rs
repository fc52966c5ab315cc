//! The CUDA driver has these calls on Linux only.

pub(crate) enum Aside {}

impl Aside {
    pub(crate) fn take() -> Result<Self, String> {
        Err("the CUDA driver can do this on 64-bit Linux only".to_owned())
    }

    pub(crate) fn bytes(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn restore(&self) -> Result<(), String> {
        match *self {}
    }
}
