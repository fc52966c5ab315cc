// The chart of a test's history: the figure of each commit, from a table.

const HISTORY_MARGIN = { left: 84, right: 16, top: 28, bottom: 28 };

function commitsOf(table) {
  return [...table.tBodies[0].rows].map((row, index) => {
    const { commit, value, lowest = value, highest = value } = row.dataset;
    const text = (cell) => row.cells[cell].textContent.trim();
    return {
      row, index, name: commit, step: row.dataset.step,
      value: value === undefined ? null : Number(value),
      lowest: Number(lowest), highest: Number(highest),
      day: text(1), shown: text(2), difference: text(3), subject: text(5),
    };
  });
}

function drawHistory(table, host) {
  const unit = host.dataset.unit;
  const isSmall = host.matches('.small');
  const chartHeight = isSmall ? 150 : 260;
  const commits = commitsOf(table);
  const measured = commits.filter((commit) => commit.value !== null);
  if (!measured.length) return;
  const low = min(0, ...measured.map((commit) => commit.lowest));
  const high = max(...measured.map((commit) => commit.highest)) || 1;
  const told = element('p', { class: 'told', 'aria-live': 'polite' });
  const range = element('p', { class: 'range' }, isSmall ? '' : 'Hover or use the arrow keys. Choose two commits to compare them.');
  let chosen = [];
  let current = commits.length - 1;
  let draw = null;

  function say(commit) {
    const change = commit.difference && ` (${commit.difference})`;
    told.textContent = `${commit.name} ${commit.day}: ${commit.value === null ? 'no figure' : commit.shown + change} · ${clean(commit.subject)}`;
  }

  function choose(commit) {
    chosen = chosen.length === 1 && chosen[0] !== commit ? [chosen[0], commit] : [commit];
    chosen.sort((a, b) => a.index - b.index);
    for (const other of commits) other.row.classList.toggle('chosen', chosen.includes(other));
    range.replaceChildren(...(chosen.length === 2 ? comparison(...chosen) : invitation(commit)));
    draw();
  }

  function comparison(from, to) {
    const isKnown = from.value !== null && to.value !== null;
    const change = isKnown ? difference(to.value - from.value, unit) : 'one has no figure';
    const distance = to.index - from.index;
    const command = table.dataset.command.replace('OLD', from.name).replace('NEW', to.name);
    return [`${from.name} → ${to.name}: ${change} over ${distance} commit${distance === 1 ? '' : 's'}. To compare them: `, element('code', {}, command)];
  }

  function invitation(commit) {
    const link = commit.step ? [' What this one changed: ', element('a', { href: `#${commit.step}` }, 'its call sites'), '.'] : [];
    return ['Choose a second commit to compare them.', ...link];
  }

  function scaled(width) {
    const { left, right, top, bottom } = HISTORY_MARGIN;
    const [across, down] = [width - left - right, chartHeight - top - bottom];
    return {
      across,
      x: (index) => left + (commits.length === 1 ? across / 2 : index * across / (commits.length - 1)),
      y: (value) => top + down * (1 - (value - low) / (high - low || 1)),
    };
  }

  draw = () => {
    const width = max(isSmall ? 240 : 320, host.clientWidth);
    const { across, x, y } = scaled(width);
    const label = `${commits.length} commits. A table has their figures. Arrow keys move, Enter chooses.`;
    const picture = svg('svg', { viewBox: `0 0 ${width} ${chartHeight}`, width, height: chartHeight, role: 'img', tabindex: 0, 'aria-label': label });
    for (const value of ticks(low, high, unit, isSmall ? 3 : 5)) {
      picture.append(svg('line', { x1: HISTORY_MARGIN.left, x2: width - HISTORY_MARGIN.right, y1: y(value), y2: y(value), class: 'grid' }),
        svg('text', { x: HISTORY_MARGIN.left - 8, y: y(value) + 4, 'text-anchor': 'end' }, tickText(value, unit)));
    }
    const path = measured.map((one, at) => (at ? `H${x(one.index)}V${y(one.value)}` : `M${x(one.index)},${y(one.value)}`));
    picture.append(svg('path', { d: path.join(''), class: 'line' }));
    for (const one of measured) picture.append(...pointOf(one, x(one.index), y));
    const ends = commits.length > 1 ? [[0, 'start'], [commits.length - 1, 'end']] : [[0, 'middle']];
    for (const [index, anchor] of ends) {
      picture.append(svg('text', { x: x(index), y: chartHeight - 8, 'text-anchor': anchor }, isSmall ? commits[index].name : `${commits[index].name} ${commits[index].day}`));
    }
    const cursor = svg('line', { y1: HISTORY_MARGIN.top, y2: chartHeight - HISTORY_MARGIN.bottom, class: 'cursor' });
    picture.append(cursor);
    const point = (index) => {
      current = min(commits.length - 1, max(0, index));
      cursor.setAttribute('x1', x(current));
      cursor.setAttribute('x2', x(current));
      say(commits[current]);
    };
    const nearest = (event) => round((inset(event, picture)[0] - HISTORY_MARGIN.left) / across * (commits.length - 1));
    picture.addEventListener('pointermove', (event) => point(nearest(event)));
    picture.addEventListener('click', (event) => { point(nearest(event)); choose(commits[current]); });
    picture.addEventListener('keydown', keys({
      ArrowLeft: () => point(current - 1),
      ArrowRight: () => point(current + 1),
      Home: () => point(0),
      End: () => point(commits.length - 1),
      Enter: () => choose(commits[current]),
    }));
    point(current);
    const hadFocus = host.contains(document.activeElement);
    host.replaceChildren(picture, told, range);
    if (hadFocus) picture.focus();
  };

  // A point, the spread of its runs, and a mark on a step.
  function pointOf(commit, x, y) {
    const isChosen = chosen.includes(commit);
    const parts = [svg('circle', { cx: x, cy: y(commit.value), r: isChosen ? 6 : 3, class: isChosen ? 'point chosen' : 'point' })];
    if (commit.lowest !== commit.highest) {
      parts.unshift(svg('line', { x1: x, x2: x, y1: y(commit.lowest), y2: y(commit.highest), class: 'spread' }));
    }
    if (commit.step) {
      parts.push(svg('text', { x, y: y(commit.value) - 10, 'text-anchor': 'middle', class: 'sign' }, commit.difference.startsWith('+') ? '▲' : '▼'));
    }
    return parts;
  }

  host.hidden = false;
  draw();
  addEventListener('resize', draw);
}

attempt(() => {
  for (const host of findAll('figure.history')) {
    const table = document.getElementById(host.dataset.table);
    if (table) drawHistory(table, host);
  }
  for (const hint of findAll('.how')) hint.hidden = false;
});
