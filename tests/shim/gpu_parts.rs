//! The parts of the shim that need no process of their own: what DRM drivers say of a client, and the ledger of a device's blocks.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

#[path = "../../templates/memprof/sources/drm_fdinfo.rs"]
mod drm_fdinfo;

#[path = "../../templates/memprof_inject/ledger.rs"]
#[expect(
    dead_code,
    clippy::pedantic,
    clippy::collapsible_if,
    reason = "the shim's own file, written for its oldest Rust"
)]
mod ledger;

mod fdinfo {
    use super::drm_fdinfo::Client;

    fn client(name: &str) -> Option<Client> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpu/fdinfo");
        Client::parse(&fs_err::read_to_string(folder.join(format!("{name}.txt"))).unwrap())
    }

    fn told(name: &str) -> (String, String, u64, Option<u64>) {
        let client = client(name).unwrap();
        (client.driver().to_owned(), client.device().to_owned(), client.id, client.device_memory)
    }

    fn expected(
        driver: &str,
        device: &str,
        id: u64,
        memory: Option<u64>,
    ) -> (String, String, u64, Option<u64>) {
        (driver.to_owned(), device.to_owned(), id, memory)
    }

    #[test]
    fn each_driver_tells_its_device_memory_in_its_own_words() {
        assert_eq!(told("amdgpu"), expected("amdgpu", "0000:c1:00.0", 24, Some(913_412 << 10)));
        assert_eq!(told("amdgpu_before_6_7"), expected("amdgpu", "0000:03:00.0", 7, Some(65_536 << 10)));
        assert_eq!(told("xe"), expected("xe", "0000:03:00.0", 33, Some((23_992 << 10) + (1 << 20))));
        assert_eq!(told("i915_discrete"), expected("i915", "0000:4d:00.0", 11, Some(36_864 << 10)));
    }

    #[test]
    fn what_was_recorded_on_real_hardware_is_read_as_it_says() {
        assert_eq!(told("recorded_amdgpu"), expected("amdgpu", "0000:04:00.0", 4, Some(44_564 << 10)));
        assert_eq!(told("recorded_amdgpu_2024"), expected("amdgpu", "0000:08:00.0", 217, Some(2_068 << 10)));
    }

    #[test]
    fn a_device_without_memory_of_its_own_has_no_figure_rather_than_zero() {
        assert_eq!(told("i915_built_in"), expected("i915", "0000:00:02.0", 2, None));
        assert_eq!(told("panfrost"), expected("panfrost", "panfrost", 3, None));
    }

    #[test]
    fn a_file_that_is_none_of_drm_is_no_client() {
        assert_eq!(client("regular_file"), None);
        assert_eq!(Client::parse(""), None);
        assert_eq!(Client::parse("drm-driver:\tnvidia-drm\ndrm-pdev:\t0000:01:00.0\n"), None);
    }
}

mod counting {
    use super::ledger::{Block, Kind, Ledger, Place, Space};

    const DEVICE: Place = Place::Device(0);

    fn block(bytes: u64) -> Block {
        Block { bytes, place: DEVICE, kind: Kind::Direct, context: 1, owner: Some(0), site: 0 }
    }

    #[test]
    fn a_free_that_the_driver_refuses_changes_nothing() {
        let mut ledger = Ledger::default();
        ledger.add(Space::Memory, 0x1000, block(100));
        ledger.begin_free(1, Space::Memory, 0x1000);
        assert_eq!(ledger.live(DEVICE), 0);
        ledger.end_free(1, false);
        assert_eq!(ledger.live(DEVICE), 100);
    }

    #[test]
    fn an_address_that_another_thread_is_given_during_a_free_counts_for_that_thread() {
        let mut ledger = Ledger::default();
        ledger.add(Space::Memory, 0x1000, block(100));
        ledger.begin_free(1, Space::Memory, 0x1000);
        ledger.add(Space::Memory, 0x1000, block(30));
        ledger.end_free(1, true);
        assert_eq!(ledger.live(DEVICE), 30);
    }

    #[test]
    fn live_blocks_are_counted_by_size() {
        let mut ledger = Ledger::default();
        for (address, bytes) in [(1, 10), (2, 40), (3, 10)] {
            ledger.add(Space::Memory, address, block(bytes));
        }
        ledger.create(5, block(10));
        ledger.add(Space::Memory, 4, Block { place: Place::Host, ..block(10) });
        let sizes = |ledger: &Ledger| -> Vec<(u64, u64)> {
            ledger.live_sizes(DEVICE).iter().map(|one| (one.bytes, one.count)).collect()
        };
        assert_eq!(sizes(&ledger), [(10, 3), (40, 1)]);
        ledger.begin_free(1, Space::Memory, 2);
        assert_eq!(sizes(&ledger), [(10, 3)]);
    }

    #[test]
    fn arrays_and_memory_with_the_same_number_are_different_things() {
        let mut ledger = Ledger::default();
        ledger.add(Space::Memory, 7, block(1));
        ledger.add(Space::Array, 7, block(10));
        ledger.add(Space::MipmappedArray, 7, block(100));
        ledger.begin_free(1, Space::Array, 7);
        ledger.end_free(1, true);
        assert_eq!(ledger.live(DEVICE), 101);
    }

    #[test]
    fn memory_without_a_handle_lives_until_its_last_mapping_ends_even_if_its_handle_is_used_again() {
        let mut ledger = Ledger::default();
        ledger.create(5, block(100));
        ledger.map(0x1000, 50, 5);
        ledger.map(0x2000, 50, 5);
        ledger.begin_release(1, 5);
        ledger.end_free(1, true);
        ledger.create(5, block(1));
        assert_eq!(ledger.live(DEVICE), 101);
        ledger.unmap(0x1000, 50);
        assert_eq!(ledger.live(DEVICE), 101);
        ledger.unmap(0x2000, 50);
        assert_eq!(ledger.live(DEVICE), 1);
        ledger.begin_release(2, 5);
        assert_eq!(ledger.live(DEVICE), 0);
    }

    #[test]
    fn a_handle_taken_of_mapped_memory_holds_it() {
        let mut ledger = Ledger::default();
        ledger.create(5, block(100));
        ledger.map(0x1000, 100, 5);
        ledger.begin_release(1, 5);
        ledger.end_free(1, true);
        ledger.retain(0x1040, 6);
        ledger.unmap(0x1000, 100);
        assert_eq!(ledger.live(DEVICE), 100);
        ledger.begin_release(2, 6);
        assert_eq!(ledger.live(DEVICE), 0);
    }

    #[test]
    fn peaks_begin_anew_with_an_interval() {
        let mut ledger = Ledger::default();
        ledger.add(Space::Memory, 1, block(100));
        ledger.begin_free(1, Space::Memory, 1);
        ledger.add(Space::Memory, 2, block(40));
        assert_eq!((ledger.accounts()[0].level.live, ledger.accounts()[0].level.peak), (40, 100));
        ledger.begin_interval();
        assert_eq!((ledger.accounts()[0].level.live, ledger.accounts()[0].level.peak), (40, 40));
    }
}
