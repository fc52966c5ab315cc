//! The result of `doctor`: sections of findings.

use serde::Serialize;

use memprof_gpu::devices::Devices;

/// All findings.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// The tool's version.
    pub tool: &'static str,
    /// Operating system and architecture, such as `linux x86_64`.
    pub platform: String,
    /// The findings, by subject.
    pub sections: Vec<DiagnosisSection>,
    /// The devices as data; `null` without NVML.
    pub devices: Option<Devices>,
}

/// Findings about one subject.
#[derive(Clone, Debug, Serialize)]
pub struct DiagnosisSection {
    /// The subject.
    pub title: &'static str,
    pub findings: Vec<Finding>,
}

/// One finding.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What was checked.
    pub name: String,
    /// Whether it is available.
    #[serde(rename = "standing")]
    pub availability: Availability,
    /// What was found.
    pub text: String,
    /// How to get what is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// Whether something that measuring needs is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// Fully available.
    Good,
    /// Available with limits.
    Limited,
    /// Missing. What needs it is unavailable, and the rest works.
    Absent,
    /// Missing, and nothing can be measured without it.
    Broken,
}

impl Diagnosis {
    /// Whether nothing can be compared on this machine.
    pub fn is_broken(&self) -> bool {
        let mut findings = self.sections.iter().flat_map(|section| &section.findings);
        findings.any(|finding| finding.availability == Availability::Broken)
    }
}

impl Finding {
    pub(crate) fn new(name: impl Into<String>, availability: Availability, text: impl Into<String>) -> Self {
        Self { name: name.into(), availability, text: text.into(), help: None }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
