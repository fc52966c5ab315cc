//! Every report of named memory.

use crate::support::synthetic::{Log, Synthetic};
use crate::support::tables::table as csv_table;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::outcome::Status;
use memprof_report::options::{Format, Options, View};
use serde_json::json;

const KIB: i64 = 1024;

/// A tensor of a group: name, kind, storage, extents of `f32`.
fn tensor(log: Log, group: u64, device: &str, said: (&str, &str, u64, &[u64])) -> Log {
    let (name, kind, storage, shape) = said;
    let bytes = 4 * shape.iter().product::<u64>();
    let fields = json!({
        "group": group, "name": name, "kind": kind, "shape": shape, "dtype": "f32", "device": device,
        "storage": storage, "bytes": bytes, "allocated": bytes.next_multiple_of(512),
    });
    log.event("tensor", &fields)
}

fn end(log: Log, group: u64) -> Log {
    log.event("tensors_end", &json!({"group": group}))
}

/// A model on a GPU, its embedding on the CPU; the candidate's layers are wider and its head is no longer tied.
fn model(width: u64) -> Log {
    let is_tied = width == 100;
    let mut log = Log::new().source("gpu.1.live", "CUPTI driver API callbacks");
    log = log.source("gpu.1.peak", "CUPTI driver API callbacks");
    log = log.checkpoint("start", &[("heap.live", 100), ("heap.peak", 100)]);
    log = tensor(log, 1, "cpu", ("model.embedding.weight", "weight", 1, &[1000, 64]));
    log = tensor(log, 1, "cpu", ("model.head.weight", "weight", if is_tied { 1 } else { 2 }, &[1000, 64]));
    for layer in 0..6 {
        let name = format!("model.encoder.layers.{layer}.self_attn.q_proj.weight");
        log = tensor(log, 1, "cuda:0", (&name, "weight", 10 + layer, &[width, 64]));
    }
    if is_tied {
        log = tensor(log, 1, "cuda:0", ("model.encoder.norm.weight", "weight", 90, &[64]));
    }
    log = log.event("cuda_device", &json!({"ordinal": 0, "device": "1"}));
    let figures = |heap: i64, gpu: i64| {
        [("heap.live", heap), ("heap.peak", heap + KIB), ("gpu.1.live", gpu), ("gpu.1.peak", gpu + 50 * KIB)]
    };
    let heap = if is_tied { 260 * KIB } else { 510 * KIB };
    log = log.checkpoint("loaded", &figures(heap, 200 * KIB));
    for step in 0_u64..2 {
        for layer in 0..6 {
            let name = format!("model.encoder.layers.{layer}.self_attn.q_proj.weight");
            log = tensor(log, 2 + step, "cuda:0", (&name, "gradient", 20 + layer, &[width, 64]));
        }
        let pool = json!({
            "name": "cubecl cuda:0", "device": "cuda:0", "in_use": 300 * KIB, "padding": 3 * KIB, "reserved": 2048 * KIB,
        });
        log = log.event("pool", &pool).checkpoint("backward", &figures(heap, 400 * KIB + 100 * KIB));
        log = end(log, 2 + step);
    }
    log.checkpoint("done", &figures(heap, 200 * KIB))
}

fn usual() -> Comparison {
    let mut synthetic = Synthetic::new(&["main", "pr/3370"]);
    for repeat in 0..3 {
        synthetic = synthetic.passed("train", 0, repeat, &model(100)).passed("train", 1, repeat, &model(120));
    }
    compare(&synthetic.results())
}

fn shown(comparison: &Comparison, format: Format, options: &Options) -> String {
    let mut out = Vec::new();
    memprof_report::render::render(format, comparison, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn view(comparison: &Comparison, width: usize) -> String {
    let options = Options { view: View::Tensors, width: Some(width), ..Options::default() };
    shown(comparison, Format::Table, &options)
}

fn table(comparison: &Comparison, width: usize) -> String {
    shown(comparison, Format::Table, &Options { width: Some(width), ..Options::default() })
}

fn assert_fits(text: &str, width: usize) {
    // A command is for copying.
    for line in text.lines().filter(|line| !line.starts_with("next: ")) {
        assert!(unicode_width::UnicodeWidthStr::width(line) <= width, "wider than {width}: {line}\n{text}");
    }
}

#[test]
fn the_table_sums_up_what_is_named_and_lists_the_layers_that_differ() {
    for width in [80, 120] {
        let text = table(&usual(), width);
        assert_fits(&text, width);
        insta::assert_snapshot!(format!("tensors_{width}"), text);
    }
}

#[test]
fn the_view_has_every_layer_with_weights_and_gradients_side_by_side() {
    for width in [80, 140] {
        let text = view(&usual(), width);
        assert_fits(&text, width);
        insta::assert_snapshot!(format!("tensors_view_{width}"), text);
    }
}

#[test]
fn the_devices_of_the_chosen_metrics_are_shown() {
    let chosen = |metric: &str| {
        let metrics = Some(vec![metric.to_owned()]);
        let options = Options { view: View::Tensors, width: Some(120), metrics, ..Options::default() };
        shown(&usual(), Format::Table, &options)
    };
    let all = chosen("time");
    let has = |text: &str| [text.contains("q_proj"), text.contains("embedding"), text.contains("cubecl")];
    assert_eq!(has(&all), [true; 3], "{all}");
    // CUDA's first device of this process is the machine's second one.
    let of_gpu = chosen("gpu.1.*");
    assert_eq!(has(&of_gpu), [true, false, true], "{of_gpu}");
    assert!(of_gpu.contains("gpu.1.live") && !of_gpu.contains("heap.live"), "{of_gpu}");
    let of_heap = chosen("heap.peak");
    assert_eq!(has(&of_heap), [false, true, false], "{of_heap}");
    let other = chosen("gpu.0.peak");
    assert_eq!(has(&other), [false; 3], "{other}");
    assert!(other.contains("no named tensor is on a device of --metrics"), "{other}");
}

#[test]
fn blocks_without_a_name_are_counted_and_listed_by_size() {
    let with_blocks = |sizes: &[u64]| {
        let fields = json!({"family": "heap", "least": 4096, "whole": 1, "sizes": sizes, "rest_count": 0, "rest_bytes": 0});
        let log = tensor(Log::new(), 1, "cpu", ("w", "weight", 1, &[4096]));
        log.event("live_sizes", &fields).checkpoint("here", &[("heap.live", 120_000), ("heap.peak", 120_000)])
    };
    // The weight has one of the blocks of 16 KiB.
    let old = with_blocks(&[16_384, 3, 0, 20_000, 1, 0]);
    let synthetic = Synthetic::new(&["old", "new"]).passed("train", 0, 0, &old).passed(
        "train",
        1,
        0,
        &with_blocks(&[16_384, 1, 0, 20_000, 4, 0]),
    );
    let both = compare(&synthetic.results());
    let line =
        " cpu: without a name, of at least 4.00 KiB: old 3 blocks (51.5 KiB), new 4 blocks (78.1 KiB)\n";
    let text = table(&both, 120);
    assert!(text.contains(line), "{text}");
    let seen = view(&both, 100);
    assert_fits(&seen, 100);
    insta::assert_snapshot!("tensors_without_a_name", seen);
    let json: serde_json::Value =
        serde_json::from_str(&shown(&both, Format::Json, &Options::default())).unwrap();
    let unnamed = &json["cells"][0]["tensors"]["unnamed"][0];
    assert_eq!(
        (&unnamed["device"], &unnamed["count"], &unnamed["bytes"]),
        (&json!("cpu"), &json!(3), &json!(52_768))
    );
    assert_eq!(unnamed["sizes"][0], json!({"bytes": 16_384, "count": 2, "of": 3}));
}

#[test]
fn a_comment_has_the_chosen_devices_only() {
    let of = |metric: &str| {
        let options = Options { metrics: Some(vec![metric.to_owned()]), ..Options::default() };
        shown(&usual(), Format::Markdown, &options)
    };
    let (gpu, none) = (of("gpu.1.live"), of("gpu.0.live"));
    assert!(gpu.contains("cuda:0: weights") && !gpu.contains("cpu: weights"), "{gpu}");
    assert!(!none.contains("Tensors of"), "{none}");
}

#[test]
fn one_revision_has_its_layers_alone() {
    let synthetic = Synthetic::new(&["main"]).passed("train", 0, 0, &model(100));
    insta::assert_snapshot!("tensors_of_one", view(&compare(&synthetic.results()), 100));
}

#[test]
fn a_comment_has_the_totals_and_the_layers_that_differ() {
    insta::assert_snapshot!("tensors_markdown", shown(&usual(), Format::Markdown, &Options::default()));
}

#[test]
fn the_json_report_says_what_was_named_and_reads_back() {
    let text = shown(&usual(), Format::Json, &Options::default());
    let report: memprof_report::json::schema::Report = serde_json::from_str(&text).unwrap();
    let [loaded, backward] = &report.layers[..] else { panic!("{:?}", report.layers) };
    assert_eq!((loaded.checkpoints, backward.checkpoints), (2, 2), "`done` names what `loaded` does");
    assert_eq!((loaded.unchanged, loaded.changed.len(), backward.changed.len()), (1, 8, 14));
    let tensors = report.cells[0].tensors.as_ref().unwrap();
    let gpu = &tensors.checkpoints[1].devices[1];
    assert_eq!((gpu.device.as_str(), gpu.metric.as_deref()), ("cuda:0", Some("gpu.1.live")));
    let named = tensors.named.iter().find(|one| one.tensor.name == "model.head.weight").unwrap();
    assert_eq!((named.first.checkpoint.as_str(), named.last.checkpoint.as_str()), ("loaded", "done"));
}

#[test]
fn without_a_tensor_reports_say_nothing_of_them_and_the_view_says_how_to_name_one() {
    let log = Log::new().checkpoint("start", &[("heap.live", 100)]);
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log).passed("t", 1, 0, &log);
    let comparison = compare(&synthetic.results());
    for format in [Format::Table, Format::Markdown, Format::Json] {
        let text = shown(&comparison, format, &Options::default());
        assert!(!text.contains("tensor") && !text.contains("layers"), "{text}");
    }
    assert!(view(&comparison, 100).starts_with("no tensor was named: `let _named = memprof::tensor("));
}

#[test]
fn what_no_checkpoint_met_is_told_to_have_been_named() {
    let start = Log::new().checkpoint("start", &[("heap.live", 100)]);
    let log = end(tensor(start, 1, "cpu", ("w", "weight", 0, &[1000])), 1)
        .checkpoint("done", &[("heap.live", 100)]);
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log).passed("t", 1, 0, &log);
    let comparison = compare(&synthetic.results());
    let said = "no checkpoint ran while these tensors were alive (1 tensor in main, 1 tensor in pr/1): call `memprof::checkpoint!`";
    for text in [table(&comparison, 150), view(&comparison, 150)] {
        assert!(text.contains(said) && !text.contains("no tensor was named"), "{text}");
    }
    let alone = Synthetic::new(&["main"]).passed("t", 0, 0, &log);
    let text = view(&compare(&alone.results()), 150);
    assert!(text.contains("no checkpoint ran while these tensors were alive (1 tensor in main)"), "{text}");
}

#[test]
fn tensors_of_the_same_name_have_rows_of_their_own() {
    let log = |second: u64| {
        let first = tensor(Log::new(), 1, "cpu", ("w", "weight", 0, &[1000]));
        let weights = tensor(first, 1, "cpu", ("w", "weight", 0, &[second]));
        let all = tensor(weights, 1, "cpu", ("w", "gradient", 0, &[1000]));
        all.checkpoint("here", &[("heap.live", 50_000), ("heap.peak", 90_000)])
    };
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log(7)).passed("t", 1, 0, &log(10));
    let text = view(&compare(&synthetic.results()), 120);
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .filter(|words: &Vec<_>| words.contains(&"f32"))
        .collect();
    let [first, second] = &rows[..] else { panic!("{text}") };
    assert_eq!(first.join(" "), "w │ f32 [1000] │ 3.91 KiB 3.91 KiB = │ 3.91 KiB 3.91 KiB =", "{text}");
    assert_eq!(second.join(" "), "~ w │ f32 [7] → [10] │ 28 B 40 B +12 B │ — —", "{text}");
}

/// A tensor of 4000 bytes, and an allocator that says this.
fn one_tensor(device: &str, metrics: &[(&str, i64)]) -> Log {
    tensor(Log::new(), 1, device, ("w", "weight", 0, &[1000])).checkpoint("here", metrics)
}

#[test]
fn a_rest_that_is_not_known_has_its_reason_and_one_below_zero_is_told_as_it_is() {
    let log = tensor(one_tensor("malloc", &[]), 1, "cpu", ("x", "other", 0, &[1000]));
    let log = log.checkpoint("there", &[("heap.live", 1000), ("heap.peak", 9000)]);
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log).passed("t", 1, 0, &log);
    let text = table(&compare(&synthetic.results()), 150);
    let reason = "cpu (malloc): unattributed memory is unknown in main and pr/1: malloc.live is read on request only: --metrics malloc.live";
    assert!(text.contains(reason), "{text}");
    assert!(text.contains(" unattributed "), "{text}");
    assert!(text.contains("-3.02 KiB"), "1000 B less 4096 B: {text}");
    assert!(text.contains("cpu: in main and pr/1, named tensors exceed live memory"), "{text}");
}

#[test]
fn figures_of_different_sources_are_not_compared() {
    let metrics = [("heap.live", 5000), ("heap.peak", 9000)];
    let other = one_tensor("cpu", &metrics).source("heap.live", "another allocator");
    let synthetic = Synthetic::new(&["main", "pr/1"])
        .passed("t", 0, 0, &one_tensor("cpu", &metrics))
        .passed("t", 1, 0, &other);
    let text = table(&compare(&synthetic.results()), 100);
    let row = |label: &str| text.lines().find(|line| line.starts_with(label)).unwrap().to_owned();
    assert!(row(" weights").ends_with('='), "{text}");
    assert!(row(" unattributed").ends_with("904 B"), "{text}");
}

#[test]
fn a_revision_that_names_nothing_is_told_once_and_its_layers_are_not_all_added() {
    let bare = Log::new().checkpoint("here", &[("heap.live", 5000), ("heap.peak", 9000)]);
    let named = one_tensor("cpu", &[("heap.live", 5000), ("heap.peak", 9000)]);
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &bare).passed("t", 1, 0, &named);
    let text = table(&compare(&synthetic.results()), 100);
    assert!(text.contains("main names no tensor here") && !text.contains("+ w"), "{text}");
}

#[test]
fn runs_of_one_revision_that_name_different_tensors_are_told() {
    let metrics = [("heap.live", 5000), ("heap.peak", 9000)];
    let other = tensor(Log::new(), 1, "cpu", ("other", "weight", 0, &[10])).checkpoint("here", &metrics);
    let synthetic = Synthetic::new(&["main", "pr/1"])
        .passed("t", 0, 0, &one_tensor("cpu", &metrics))
        .passed("t", 1, 0, &one_tensor("cpu", &metrics))
        .passed("t", 1, 1, &other);
    let text = table(&compare(&synthetic.results()), 120);
    assert!(
        text.contains("pr/1: runs name different tensors at 1 checkpoint; the first run is shown"),
        "{text}"
    );
}

#[test]
fn tensors_of_a_run_that_was_cut_off_are_shown_and_not_compared() {
    let metrics = [("heap.live", 5000), ("heap.peak", 9000)];
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &one_tensor("cpu", &metrics)).failed(
        "t",
        1,
        Status::Failed { exit_code: 101 },
        "a message",
        Some(&one_tensor("cpu", &metrics)),
    );
    let text = table(&compare(&synthetic.results()), 100);
    let tensors = text.split("tensors at here").nth(1).unwrap();
    assert!(tensors.contains("✗ pr/1") && !tensors.contains('Δ') && !tensors.contains("differ"), "{text}");
}

#[test]
fn very_many_states_and_layers_are_bounded_and_counted() {
    let log = |growth: u64| {
        (1..40_u64).fold(Log::new(), |mut log, step| {
            for layer in 0..30 {
                let name = format!("cache.{layer}");
                log = tensor(log, step, "cpu", (&name, "activation", 0, &[step * growth]));
            }
            end(log.checkpoint("step", &[("heap.live", 1 << 20)]), step)
        })
    };
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log(1)).passed("t", 1, 0, &log(2));
    let comparison = compare(&synthetic.results());
    let text = table(&comparison, 100);
    assert!(
        text.contains("… 35 other sets of named tensors not shown (none is higher): --view tensors"),
        "{text}"
    );
    assert!(text.contains("… 20 more tensors differ: --view tensors"), "{text}");
    assert!(
        view(&comparison, 100)
            .contains("… 27 other sets of named tensors not shown (none is higher): --rows all")
    );
}

#[test]
fn as_csv_a_tensor_is_a_row() {
    let rows = csv_table(Format::CsvTensors, &usual());
    let once = rows.iter().filter(|row| row["occurrence"] == "1").count();
    assert_eq!(once, 2 + 6 + 1 + 6, "weights on the CPU and the GPU, a norm, gradients");
    let is = |row: &&std::collections::BTreeMap<String, String>| {
        row["tensor"].contains("layers.3") && row["kind"] == "gradient"
    };
    let gradient = rows.iter().find(is).unwrap();
    for (heading, expected) in [
        ("device", "cuda:0"),
        ("occurrence", "1"),
        ("bytes:main", "25600"),
        ("bytes:pr/3370", "30720"),
        ("bytes:pr/3370:delta", "5120"),
        ("bytes:pr/3370:percent", "20.0000"),
        ("shape:pr/3370", "[120, 64]"),
        ("dtype:main", "f32"),
    ] {
        assert_eq!(gradient[heading], expected, "{heading}");
    }
    // When it is alive, and the storage that it may share.
    let number = |heading: &str| gradient[heading].parse::<u64>().expect(heading);
    assert!(number("from:main") < number("until:main") && number("storage:main") > 0);
    let norm = rows.iter().find(|row| row["tensor"].contains("norm")).unwrap();
    assert_eq!(
        (&*norm["bytes:main"], &*norm["bytes:pr/3370"], &*norm["bytes:pr/3370:delta"]),
        ("256", "", "")
    );
}

/// A training of three passes, of which the first one is different, and one on a GPU.
fn passes(width: i64) -> Log {
    let mut log = Log::new().checkpoint("start", &[("heap.live", 100), ("heap.peak", 100)]);
    let layer = |name: Option<&str>, memory: &str, depth: u32, calls: u32, figures: [i64; 3]| {
        let [allocated, freed, peak] = figures;
        let counted = |figure: i64| (memory == "heap").then_some(figure);
        json!({
            "name": name, "memory": memory, "calls": calls, "depth": depth, "allocated": counted(allocated),
            "freed": counted(freed), "freed_later": 0, "retained": allocated - freed, "peak": peak,
        })
    };
    for step in 1..=3 {
        let first = if step == 1 { 50 * KIB } else { 0 };
        let elsewhere = u8::from(width > 100 && step > 1);
        let pass = json!({"label": "train", "occurrence": step, "elsewhere": elsewhere});
        log = log.event("forward", &pass);
        for memory in ["heap", "gpu.1"] {
            let row = |name, depth, calls, figures| layer(name, memory, depth, calls, figures);
            log = log.event("layer", &row(None, 0, 1, [3 * KIB, 5 * KIB, 80 * KIB]));
            log = log.event("layer", &row(Some("block.0"), 1, 1, [KIB, 0, 70 * KIB]));
            let figures = [width * KIB + first, KIB + first, width * KIB + first];
            log = log.event("layer", &row(Some("block.0.attention"), 2, 2, figures));
        }
    }
    log.checkpoint("done", &[("heap.live", 100), ("heap.peak", 100)])
}

#[test]
fn forward_passes_are_shown_by_layer_and_equal_ones_once() {
    let both = Synthetic::new(&["main", "wider"]).passed("train", 0, 0, &passes(100));
    let both = compare(&both.passed("train", 1, 0, &passes(120)).results());
    for width in [80, 120] {
        let text = view(&both, width);
        assert_fits(&text, width);
        insta::assert_snapshot!(format!("forward_passes_{width}"), text);
    }
    let alone = Synthetic::new(&["main"]).passed("train", 0, 0, &passes(100));
    insta::assert_snapshot!("forward_passes_of_one", view(&compare(&alone.results()), 100));
}

#[test]
fn passes_have_the_memory_of_the_chosen_devices_only() {
    let one = compare(&Synthetic::new(&["main"]).passed("train", 0, 0, &passes(100)).results());
    let of = |metric: &str| {
        let metrics = Some(vec![metric.to_owned()]);
        shown(
            &one,
            Format::Table,
            &Options { metrics, view: View::Tensors, width: Some(120), ..Options::default() },
        )
    };
    let gpu = of("gpu.1.*");
    assert!(gpu.contains("gpu.1: kept") && !gpu.contains("heap: kept"), "{gpu}");
    assert!(of("gpu.0.*").contains("no layer has memory of --metrics"), "{}", of("gpu.0.*"));
}

#[test]
fn a_pass_without_rows_says_what_may_be_missing() {
    let log = Log::new().checkpoint("start", &[("heap.live", 100), ("heap.peak", 100)]);
    let log = log.event("forward", &json!({"label": "train", "occurrence": 1, "elsewhere": 0}));
    let text = view(&compare(&Synthetic::new(&["main"]).passed("train", 0, 0, &log).results()), 120);
    assert!(text.contains("if a C library has it: --metrics malloc.live"), "{text}");
}

#[test]
fn csv_and_json_have_a_row_for_each_layer_of_a_pass() {
    let both = Synthetic::new(&["main", "wider"]).passed("train", 0, 0, &passes(100));
    let both = compare(&both.passed("train", 1, 0, &passes(120)).results());
    let rows = csv_table(Format::CsvLayers, &both);
    let find = |pass: &str, layer: &str, memory: &str| {
        let is_it = |row: &&std::collections::BTreeMap<String, String>| {
            [("pass", pass), ("layer", layer), ("memory", memory)]
                .iter()
                .all(|(key, value)| row[*key] == *value)
        };
        rows.iter().find(is_it).unwrap()
    };
    assert_eq!(rows.len(), 2 * 2 * 3);
    let attention = find("2", "block.0.attention", "heap");
    let fields = [
        "passes:main",
        "calls:main",
        "allocated:main",
        "freed:main",
        "retained:main",
        "retained:wider:delta",
    ];
    let values = fields.map(|name| attention[name].clone());
    assert_eq!(values, ["2", "2", "102400", "1024", "101376", "20480"].map(str::to_owned));
    assert_eq!(find("1", "", "gpu.1")["freed:main"], "", "not counted");

    let report: serde_json::Value =
        serde_json::from_str(&shown(&both, Format::Json, &Options::default())).unwrap();
    let forwards = report["cells"][0]["forwards"].as_array().unwrap();
    assert_eq!(forwards.len(), 2);
    assert_eq!((&forwards[1]["first"], &forwards[1]["passes"]), (&json!(2), &json!(2)));
    let row = &forwards[1]["layers"][5];
    assert_eq!((&row["name"], &row["memory"]), (&json!("block.0.attention"), &json!("gpu.1")));
    assert_eq!((&row["allocated"], &row["retained"]), (&json!(null), &json!(99 * KIB)));
}
