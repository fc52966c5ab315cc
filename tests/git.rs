//! Everything that touches git, on real repositories.

mod support;

use support::TestRepository;

#[test]
fn the_same_calls_give_the_same_hashes() {
    let make = || {
        let mut repository = TestRepository::new();
        repository.write("a/b.txt", "content\n");
        repository.commit("first")
    };
    assert_eq!(make(), make());
}
