// Series of figures, ready for a million points.

const BLOCK = 32;

// Points with rising x, and the lowest and highest y of each block, so that a pixel column that
// covers many points is cheap.
function track(xs, ys) {
  const blocks = ceil(ys.length / BLOCK);
  const lows = new Float64Array(blocks).fill(Infinity);
  const highs = new Float64Array(blocks).fill(-Infinity);
  for (let i = 0; i < ys.length; i += 1) {
    const block = (i / BLOCK) | 0;
    if (ys[i] < lows[block]) lows[block] = ys[i];
    if (ys[i] > highs[block]) highs[block] = ys[i];
  }
  return { xs, ys, lows, highs, length: ys.length };
}

function extent({ ys, lows, highs }, from, to) {
  let low = Infinity;
  let high = -Infinity;
  for (let i = from; i < to;) {
    if (i % BLOCK === 0 && i + BLOCK <= to) {
      const block = i / BLOCK;
      if (lows[block] < low) low = lows[block];
      if (highs[block] > high) high = highs[block];
      i += BLOCK;
    } else {
      if (ys[i] < low) low = ys[i];
      if (ys[i] > high) high = ys[i];
      i += 1;
    }
  }
  return [low, high];
}

// The first point at or after x.
function firstFrom({ xs, length }, x) {
  let [low, high] = [0, length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

function summed(differences) {
  let level = 0;
  return Float64Array.from(differences, (one) => (one === null ? NaN : level += one));
}

// Computes a value of a test once.
function once(test, key, compute) {
  test.known ??= new Map();
  if (!test.known.has(key)) test.known.set(key, compute());
  return test.known.get(key);
}

// Figures of a metric and ref by checkpoint.
function valuesOf(test, metric, ref) {
  return once(test, `${ref} ${metric}`, () => {
    const steps = test.series?.[metric]?.[ref];
    if (!steps) return null;
    // The steps of other refs are given beside the baseline's.
    const base = ref === report.baseline ? null : test.series[metric][report.baseline];
    return summed(base ? steps.map((step, index) => (step === null ? null : step + (base[index] ?? 0))) : steps);
  });
}

// The points of a metric that have a figure; x is the checkpoint's index or its time.
function trackOf(test, metric, ref, byTime) {
  return once(test, `${ref} ${metric} ${byTime ? 'by time' : 'by checkpoint'}`, () => {
    const values = valuesOf(test, metric, ref);
    const times = byTime ? valuesOf(test, 'time', ref) : null;
    return values && (times || !byTime) ? pointsOf(values, times) : null;
  });
}

function pointsOf(values, times) {
  const xs = new Float64Array(values.length);
  const ys = new Float64Array(values.length);
  let length = 0;
  values.forEach((value, index) => {
    const x = times ? times[index] : index;
    if (Number.isNaN(value) || Number.isNaN(x)) return;
    xs[length] = x;
    ys[length] = value;
    length += 1;
  });
  return track(xs.subarray(0, length), ys.subarray(0, length));
}

// A timeline as a layer of a chart.
function bandOf(timeline) {
  const { begin, width, ref, lowest, highest } = timeline;
  const spans = (differences) => track(Float64Array.from(differences, (_, span) => begin + span * width), summed(differences));
  timeline.band ??= { ref, low: spans(lowest), high: spans(highest) };
  return timeline.band;
}
