// Flame graphs and treemaps.

// The refs of the two sides. A report of one revision has one side.
const sidesOf = (data) => data.refs ?? [report.baseline, report.refs.findIndex((_, ref) => ref !== report.baseline)];
// The two sides may be checkpoints of one ref.
const sideNames = (data) => (data.checkpoints ?? sidesOf(data).map((ref) => report.refs[ref] ?? '')).map((name) => clean(name, 40));

// A tint and a mark say whether a part grew or shrank, and whether by much.
function growth([before, after], most) {
  const share = before === undefined || after === undefined ? 0 : (after - before) / most;
  if (!(abs(share) >= 0.01)) return { tint: 'same', mark: '' };
  const strength = abs(share) > 0.3 ? 'strong' : 'weak';
  return share > 0 ? { tint: `grown-${strength}`, mark: '▲ ' } : { tint: `shrunk-${strength}`, mark: '▼ ' };
}

function figuresOf([before, after], data) {
  const names = sideNames(data);
  const at = data.checkpoints ? 'at' : 'in';
  const known = [before, after].map((value, side) => value !== undefined && `${figure(value, data.unit)} ${at} ${names[side]}`);
  if (known.every(Boolean)) known.push(difference(after - before, data.unit));
  return known.filter(Boolean).join(', ');
}

// A picture of boxes with tools above it, and below it a line about the selected box.
function boxPicture(host, { tools, label, hint, about, boxes, onselect, onkeydown, onclick, height, paint }) {
  const plotted = element('div', { class: 'plot' });
  const detail = element('p', { class: 'detail', 'aria-live': 'polite' });
  host.append(element('div', { class: 'bar' }, ...tools, element('span', { class: 'hint' }, hint)), plotted, detail);
  host.hidden = false;
  const boxAt = (event) => {
    const [x, y] = inset(event, picture.canvas);
    return boxes().findLast((box) => x >= box.x && x < box.x + max(1, box.w) && y >= box.y && y < box.y + box.h);
  };
  const picture = drawing(plotted, {
    'aria-label': label,
    onkeydown,
    onclick: (event) => { const box = boxAt(event); if (box) onclick?.(box); },
    onpointermove: (event) => {
      const box = boxAt(event);
      picture.canvas.title = box ? about(box) : '';
      if (box) onselect(box);
    },
  }, height, paint);
  return { ...picture, tell: (...lines) => detail.replaceChildren(...lines.map((line) => element('span', {}, line))) };
}

function outline(pen, box) {
  pen.strokeStyle = colour('text');
  pen.lineWidth = 2;
  pen.strokeRect(box.x + 1, box.y + 1, max(1, box.w - 2), max(1, box.h - 2));
}

const FRAME = 20;
const MOST_LEVELS = 48;
const MOST_OUTER = 3;

// Bytes of each stack and what it calls, for each tab; and who calls whom.
function flameTree({ parents, self: [before, after] }) {
  const totals = (own) => {
    const values = Float64Array.from(own);
    for (let node = values.length - 1; node > 0; node -= 1) values[parents[node]] += values[node];
    return values;
  };
  const values = { baseline: before && totals(before), candidate: after && totals(after) };
  if (before && after) {
    values.grew = totals(after.map((bytes, node) => max(0, bytes - before[node])));
    values.shrank = totals(after.map((bytes, node) => max(0, before[node] - bytes)));
  }
  const size = (node) => max(values.baseline?.[node] ?? 0, values.candidate?.[node] ?? 0);
  const children = parents.map(() => []);
  for (let node = 1; node < parents.length; node += 1) children[parents[node]].push(node);
  // One order for all tabs, so that frames keep their place.
  for (const list of children) list.sort((a, b) => size(b) - size(a));
  return { values, size, children };
}

function drawFlame(test, flame, host) {
  const { values, size, children } = flameTree(flame);
  const { parents, unit } = flame;
  const names = sideNames(flame);
  const tabs = [['baseline', names[0]], ['candidate', names[1]], ['grew', 'what grew'], ['shrank', 'what shrank']]
    .filter(([name]) => values[name]);
  let tab = values.candidate ? 'candidate' : 'baseline';
  let root = 0;
  let selected = 0;
  let words = '';
  let boxes = [];
  let hidden = false;  // whether levels are left out
  let levels = 1;

  const search = element('input', {
    type: 'search', placeholder: 'Search functions', 'aria-label': 'Search functions', oninput: () => {
      words = search.value.trim().toLowerCase();
      update();
    },
  });
  const out = element('button', { type: 'button', hidden: true, onclick: () => enter(0) }, 'Whole graph');
  const chooser = choice('Side', tabs, tab, (value) => { tab = value; update(); });
  const { later, tell } = boxPicture(host, {
    tools: [...(tabs.length > 1 ? [chooser] : []), search, out],
    label: `Flame graph of ${clean(flame.metric)} at ${clean(flame.label)}. The table above lists the largest sites.`,
    hint: 'Click or Enter zooms in, Esc goes out, arrows move.',
    about: ({ node }) => about(node),
    boxes: () => boxes,
    onselect: ({ node }) => select(node),
    onclick: ({ node }) => enter(node === root ? parents[root] : node),
    onkeydown: keys({
      ArrowDown: () => move(children[selected].find(seen)),
      ArrowUp: () => move(parents[selected]),
      ArrowLeft: () => move(beside(-1)),
      ArrowRight: () => move(beside(1)),
      Enter: () => enter(selected),
      Escape: () => enter(parents[root]),
      Home: () => enter(0),
    }),
    height, paint,
  });
  update();

  function nameOf(node) {
    return node === 0 ? 'all' : clean(flame.names[flame.name[node]]);
  }

  function matches(node) {
    return words !== '' && node !== 0 && nameOf(node).toLowerCase().includes(words);
  }

  function layout(width) {
    boxes = [];
    const outer = [];
    for (let node = root; node !== 0 && outer.length < MOST_OUTER; outer.unshift(node)) node = parents[node];
    // In the tabs of the two sides the same width is the same number of bytes.
    const whole = tab === 'baseline' || tab === 'candidate' ? size(root) : values[tab][root];
    const waiting = [[root, outer.length, 0]];
    outer.forEach((node, level) => boxes.push({ node, x: 0, y: level * FRAME, w: width, h: FRAME }));
    hidden = false;
    while (waiting.length) {
      const [node, level, x] = waiting.pop();
      const w = whole > 0 ? values[tab][node] / whole * width : 0;
      if (w < 0.5) continue;
      if (level >= MOST_LEVELS) { hidden = true; continue; }
      boxes.push({ node, x, y: level * FRAME, w, h: FRAME });
      // A graph that gets lower while one zooms would move the page under the pointer.
      levels = max(levels, level + 1);
      let left = x;
      for (const child of children[node]) {
        waiting.push([child, level + 1, left]);
        left += values[tab][child] / whole * width;
      }
    }
  }

  function height(width) {
    layout(width);
    return levels * FRAME + (hidden ? 18 : 0);
  }

  function paint(pen, width, whole) {
    pen.textBaseline = 'middle';
    pen.textAlign = 'left';
    for (const box of boxes) paintFrame(pen, box);
    const box = boxes.find(({ node }) => node === selected);
    if (box) outline(pen, box);
    pen.fillStyle = colour('quiet');
    if (hidden) pen.fillText('More levels below: zoom in to see them.', 4, whole - 8);
    if (boxes.length === 0) pen.fillText('Nothing.', 4, FRAME / 2);
  }

  function paintFrame(pen, { node, x, y, w }) {
    const { tint, mark } = growth(bytesOf(node), size(root));
    pen.fillStyle = colour(values.grew ? tint : 'tone');
    pen.fillRect(x, y, max(0.5, w - 1), FRAME - 1);
    pen.fillStyle = colour('focus');
    if (matches(node)) pen.fillRect(x, y + FRAME - 4, max(1, w - 1), 3);
    pen.fillStyle = colour('text');
    if (w < (mark ? 14 : 24)) return;
    const whole = `${mark}${nameOf(node)}  ${figure(values[tab][node], unit)}`;
    const text = pen.measureText(whole).width <= w - 10 ? whole : fitPath(pen, nameOf(node), w - 10, mark);
    pen.fillText(text, x + 5, y + FRAME / 2);
  }

  function bytesOf(node) {
    return [values.baseline?.[node], values.candidate?.[node]];
  }

  function select(node) {
    if (node === selected) return;
    selected = node;
    update();
  }

  function enter(node) {
    root = selected = node;
    out.hidden = root === 0;
    update();
  }

  function share(bytes) {
    return `${percent(bytes, values[tab][0])} of ${tabs.find(([name]) => name === tab)[1]}`;
  }

  function about(node) {
    const place = node === 0 ? null : flame.places?.[flame.name[node]];
    return [nameOf(node), place && clean(place), figuresOf(bytesOf(node), flame), share(values[tab][node])].filter(Boolean).join(' · ');
  }

  function update() {
    tell(about(selected), ...(words ? [found()] : []));
    later();
  }

  // Bytes below the outermost matches, so that recursion counts once.
  function found() {
    const inside = [];
    const functions = new Set();
    let bytes = 0;
    for (let node = 1; node < parents.length; node += 1) {
      inside[node] = inside[parents[node]] || matches(node);
      if (matches(node)) functions.add(flame.name[node]);
      if (inside[node] && !inside[parents[node]]) bytes += values[tab][node];
    }
    return `${functions.size} ${functions.size === 1 ? 'function matches' : 'functions match'}: ${figure(bytes, unit)}, ${share(bytes)}`;
  }

  function seen(node) {
    return values[tab][node] > 0;
  }

  function beside(by) {
    const list = selected ? children[parents[selected]].filter(seen) : [];
    return list[list.indexOf(selected) + by];
  }

  function move(node = selected) {
    select(node);
    if (!boxes.some((box) => box.node === node)) enter(node);
  }
}

// A path loses its front parts first: what tells it from others is at the end.
function fitPath(pen, text, width, mark = '') {
  const starts = [0, ...[...text.matchAll(/::|\./g)].slice(-2).map((cut) => cut.index + cut[0].length)];
  const texts = starts.map((start) => mark + text.slice(start));
  return texts.find((one) => pen.measureText(one).width <= width) ?? (fit(pen, texts.at(-1), width) || mark);
}

function drawTreemap(test, map, host) {
  const sides = sidesOf(map);
  const isPair = sides[1] >= 0 && map.boxes.some((box) => typeof box[3][1] === 'number');
  const rest = map.rest ?? [0, 0];
  const totals = [0, 1].map((side) => sum(map.boxes.map((box) => box[3][side] ?? 0)) + (rest[side] ?? 0));
  let side = isPair ? 1 : 0;
  let boxes = [];  // those that stand for bytes
  let frames = [];  // those around them
  let selected = -1;
  const names = sideNames(map);
  const chooser = choice('Side', names.map((name, index) => [index, name]), side, (value) => {
    side = Number(value);
    selected = -1;
    later();
  });
  const { later, tell } = boxPicture(host, {
    tools: isPair ? [chooser] : [],
    label: `Treemap of tensors in ${clean(test.title)}. The table above lists them.`,
    hint: 'Arrows move from the largest box to the smallest.',
    about, boxes: () => boxes, paint,
    onkeydown: keys({
      ArrowRight: () => choose(selected + 1), ArrowDown: () => choose(selected + 1),
      ArrowLeft: () => choose(selected - 1), ArrowUp: () => choose(selected - 1),
    }),
    onselect: (box) => choose(boxes.indexOf(box)),
    height: (width) => min(420, max(240, width * 0.45)),
  });

  function entry(name, list) {
    return { name, list, size: sum(list.map((box) => box[3][side] ?? 0)) };
  }

  // Boxes of devices hold boxes of kinds, and those hold the layers.
  function layout(width, height) {
    const area = { x: 0, y: 0, w: width * totals[side] / max(...totals, 1), h: height };
    const leaf = (name, bytes, path) => ({ name, path, size: bytes[side] ?? 0, values: isPair ? bytes.map((one) => one ?? 0) : [bytes[0]] });
    const devices = [...grouped(map.boxes, 0)].map(([name, list]) => entry(name, list));
    const outer = split([...devices, { ...leaf('unattributed', rest, ''), isRest: true }], area);
    boxes = outer.filter((box) => box.isRest);
    frames = outer.filter((box) => !box.isRest);
    for (const device of [...frames]) {
      const kinds = split([...grouped(device.list, 1)].map(([name, list]) => entry(name, list)), within(device));
      frames.push(...kinds);
      for (const kind of kinds) {
        const path = `${device.name} · ${kind.name} · `;
        boxes.push(...split(kind.list.map((box) => leaf(box[2], box[3], path)), within(kind)));
      }
    }
    boxes.sort((a, b) => b.size - a.size);
  }

  function paint(pen, width, height) {
    layout(width, height);
    pen.textBaseline = 'top';
    pen.textAlign = 'left';
    for (const box of frames) paintBox(pen, box, 'surface', 'axis');
    for (const box of boxes) {
      const { tint, mark } = growth(box.values, max(...box.values));
      paintBox(pen, box, tint, 'page', mark, figure(box.size, map.unit));
    }
    if (boxes[selected]) outline(pen, boxes[selected]);
    tell(`${names[side]}: ${figure(totals[side], map.unit)}`, boxes[selected] ? about(boxes[selected]) : '');
  }

  function about(box) {
    return `${clean(box.path)}${clean(box.name)} · ${figuresOf(box.values, map)}`;
  }

  function choose(index) {
    if (index === selected) return;
    selected = max(0, min(boxes.length - 1, index));
    later();
  }
}

function paintBox(pen, box, fill, edge, mark, bytes) {
  if (box.w < 1 || box.h < 1) return;
  pen.fillStyle = colour(fill);
  pen.strokeStyle = colour(edge);
  pen.lineWidth = 1;
  pen.fillRect(box.x, box.y, box.w, box.h);
  if (box.isRest) hatch(pen, box);
  pen.strokeRect(box.x + 0.5, box.y + 0.5, box.w - 1, box.h - 1);
  pen.fillStyle = colour('text');
  if (box.w > (mark ? 14 : 24) && box.h > 14) pen.fillText(fitPath(pen, clean(box.name), box.w - 8, mark), box.x + 3, box.y + 3);
  if (bytes && box.h > 32 && pen.measureText(bytes).width < box.w - 8) pen.fillText(bytes, box.x + 3, box.y + 18);
}

function grouped(boxes, part) {
  const groups = new Map();
  for (const box of boxes) groups.set(box[part], [...(groups.get(box[part]) ?? []), box]);
  return groups;
}

// The inside of a box below its name, if there is room for one.
function within({ x, y, w, h }) {
  const top = h > 40 && w > 40 ? 18 : 2;
  return { x: x + 2, y: y + top, w: max(0, w - 4), h: max(0, h - top - 2) };
}

// Splits an area in proportion: halves of about equal size, across the longer side, and so on.
function split(entries, area) {
  const sorted = entries.filter(({ size }) => size > 0).sort((a, b) => b.size - a.size);
  if (sorted.length < 2) return sorted.map((one) => ({ ...one, ...area }));
  const whole = sum(sorted.map(({ size }) => size));
  let count = 1;
  let first = sorted[0].size;
  while (count < sorted.length - 1 && first + sorted[count].size / 2 < whole / 2) first += sorted[count++].size;
  const { x, y, w, h } = area;
  const [a, b] = [first / whole, 1 - first / whole];
  const [left, right] = w > h ? [{ x, y, w: w * a, h }, { x: x + w * a, y, w: w * b, h }]
    : [{ x, y, w, h: h * a }, { x, y: y + h * a, w, h: h * b }];
  return [...split(sorted.slice(0, count), left), ...split(sorted.slice(count), right)];
}

function hatch(pen, { x, y, w, h }) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, w, h);
  pen.clip();
  pen.strokeStyle = colour('axis');
  for (let at = x - h; at < x + w; at += 8) stroke(pen, [[at, y + h], [at + h, y]]);
  pen.restore();
}
