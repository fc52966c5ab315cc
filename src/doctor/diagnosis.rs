//! What `doctor` found and made of it: sections of findings.

use serde::Serialize;

use crate::gpu::devices::Devices;

/// All findings.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// The program's version.
    pub tool: &'static str,
    /// `linux x86_64`.
    pub platform: String,
    /// The findings, by what they are about.
    pub sections: Vec<Section>,
    /// The devices as data; `null` without NVML.
    pub devices: Option<Devices>,
}

/// Findings about one thing.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// About what.
    pub title: &'static str,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// One finding.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What was looked for.
    pub name: String,
    /// Whether it is well.
    pub standing: Standing,
    /// What was found.
    pub text: String,
    /// How to get what is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// Whether a thing is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// All that can be had.
    Good,
    /// Less than could be had.
    Limited,
    /// Not there; what needs it is absent, the rest works.
    Absent,
    /// Nothing can be measured without it.
    Broken,
}

impl Diagnosis {
    /// Whether comparisons cannot be made here at all.
    pub fn is_broken(&self) -> bool {
        let mut findings = self.sections.iter().flat_map(|section| &section.findings);
        findings.any(|finding| finding.standing == Standing::Broken)
    }
}

impl Finding {
    pub(crate) fn new(name: impl Into<String>, standing: Standing, text: impl Into<String>) -> Self {
        Self { name: name.into(), standing, text: text.into(), help: None }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
