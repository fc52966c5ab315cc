//! How much host memory a process may still take: the machine's, and its control groups' limits.

use camino::{Utf8Path, Utf8PathBuf};

/// What is available, and what limits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostMemory {
    pub bytes: u64,
    /// `MemAvailable`, or the control group's limit.
    pub limit: &'static str,
}

/// Returns what is available to a process; `None` if `/proc` does not say.
pub(crate) fn available_to(process: u32) -> Option<HostMemory> {
    available(
        &format!("/proc/{process}/cgroup"),
        Utf8Path::new("/proc/meminfo"),
        Utf8Path::new("/sys/fs/cgroup"),
    )
}

fn available(membership: &str, meminfo: &Utf8Path, groups: &Utf8Path) -> Option<HostMemory> {
    let text = std::fs::read_to_string(meminfo).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let bytes = line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)?;
    let machine = HostMemory { bytes, limit: "MemAvailable" };
    let membership = std::fs::read_to_string(membership).unwrap_or_default();
    let rooms = membership.lines().flat_map(|line| rooms(line, groups));
    let group = rooms.min().map(|bytes| HostMemory { bytes, limit: "the limit of the control group" });
    Some(group.filter(|group| group.bytes < machine.bytes).unwrap_or(machine))
}

/// Returns the room in the group of this line of `/proc/PID/cgroup`, and in the groups around it.
fn rooms(line: &str, groups: &Utf8Path) -> Vec<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (root, limit, used, inactive) = if controllers.is_empty() {
        (groups.to_owned(), "memory.max", "memory.current", "inactive_file ")
    } else if controllers.split(',').any(|one| one == "memory") {
        (groups.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ")
    } else {
        return Vec::new();
    };
    let own = root.join(path.trim_start_matches('/'));
    let number = |file: Utf8PathBuf| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let free_in = |folder: &Utf8Path| {
        let (limit, used) = (number(folder.join(limit))?, number(folder.join(used))?);
        // The kernel gives up unused pages of files before it runs out.
        let statistics = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let cached = statistics.lines().find_map(|line| line.strip_prefix(inactive)?.trim().parse().ok());
        Some(limit.saturating_sub(used.saturating_sub(cached.unwrap_or(0))))
    };
    // In a container, the path may be the host's, and only the root exists.
    own.ancestors().take_while(|folder| folder.starts_with(&root)).filter_map(free_in).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_counts_and_says_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        };
        write("meminfo", "MemTotal:  9000 kB\nMemAvailable:    8000 kB\n");
        write("cgroup", "12:cpu:/x\n4:memory:/job\n0::/slice/unit\n");
        let now = || {
            let membership = folder.join("cgroup");
            let found =
                available(membership.as_str(), &folder.join("meminfo"), &folder.join("groups")).unwrap();
            (found.bytes, found.limit)
        };
        assert_eq!(now(), (8000 << 10, "MemAvailable"));
        write("groups/slice/memory.max", "5000000\n");
        write("groups/slice/memory.current", "2000000\n");
        write("groups/slice/memory.stat", "anon 1\ninactive_file 500000\n");
        write("groups/slice/unit/memory.max", "max\n");
        write("groups/slice/unit/memory.current", "1\n");
        assert_eq!(now(), (3_500_000, "the limit of the control group"));
        write("groups/memory/job/memory.limit_in_bytes", "3000000\n");
        write("groups/memory/job/memory.usage_in_bytes", "1000000\n");
        assert_eq!(now(), (2_000_000, "the limit of the control group"));
    }
}
