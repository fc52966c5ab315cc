//! Elapsed time for display.

use std::time::Duration;

/// Returns `350 µs`, `12 ms`, `38.2 s`, `2 min 5 s` or `1 h 12 min`.
pub fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if (1..1000).contains(&duration.as_micros()) => format!("{} µs", duration.as_micros()),
        0 if duration.as_millis() < 100 => format!("{} ms", duration.as_millis()),
        // Rounding would turn 59.95 s into 60.0 s.
        0..60 => format!("{:.1} s", duration.as_secs_f64().min(59.9)),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_that_they_need() {
        let all = [12, 800, 38_200, 59_990, 125_000, 4_320_000].map(|ms| shown(Duration::from_millis(ms)));
        assert_eq!(all, ["12 ms", "0.8 s", "38.2 s", "59.9 s", "2 min 5 s", "1 h 12 min"]);
        assert_eq!(shown(Duration::from_nanos(350_900)), "350 µs");
    }
}
