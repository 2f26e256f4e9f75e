// The tree of prompts: one row for each stretch in which no prompts part, drawn at its position between the first token and
// the longest prompt's last, with a mark at each snapshot. The snapshots of a row are listed when it is opened.

import { element } from './element.js';
import { bytes, count, kReasons, originWords, reasonWords, tierPlace, tierWords } from './report.js';

const kRows = 200;  // before more is asked for
const kMostMarks = 60;  // of one row

function ago(seconds) {
  if (seconds < 60) return Math.floor(seconds) + ' s ago';
  if (seconds < 3600) return Math.floor(seconds / 60) + ' min ago';
  return seconds < 86400 ? Math.floor(seconds / 3600) + ' h ago' : Math.floor(seconds / 86400) + ' days ago';
}

/** Rows [nodes from the first token on, level], each before those that go on from it. */
function rowsOf(nodes) {
  const children = nodes.map(() => []);
  const roots = [];
  nodes.forEach((node, i) => (node.parent === null ? roots : children[node.parent]).push(i));
  const out = [];
  const left = roots.reverse().map(i => [i, 0]);
  while (left.length > 0) {
    let [i, level] = left.pop();
    const row = [nodes[i]];
    while (children[i].length === 1) {
      [i] = children[i];
      row.push(nodes[i]);
    }
    out.push([row, level]);
    for (const child of children[i].reverse()) left.push([child, level + 1]);
  }
  return out;
}

const at = (depth, longest) => 100 * depth / longest + '%';

function track(row, longest) {
  const node = element('span', { class: 'track', 'aria-hidden': 'true' });
  const part = (name, from, to) => {
    const span = element('span', { class: name });
    span.style.insetInlineStart = at(from, longest);
    span.style.width = at(to - from, longest);
    return span;
  };
  const begin = row[0].depth - row[0].tokens;
  node.append(part('trunk', 0, begin), ...row.map(one => part('stretch' + (one.snapshot ? '' : ' bare'), one.depth - one.tokens, one.depth)));
  const marked = row.filter(one => one.snapshot || one.gone);
  for (const one of marked.slice(-kMostMarks)) {
    const mark = element('span', { class: 'mark ' + (one.snapshot ? 'origin-' + one.snapshot.origin : 'gone') });
    mark.style.insetInlineStart = at(one.depth, longest);
    node.append(mark);
  }
  return node;
}

function factsOf({ snapshot, gone, computing }) {
  const facts = [];
  if (snapshot) {
    facts.push(originWords(snapshot.origin), tierWords(snapshot.tier), bytes(snapshot.bytes));
    if (snapshot.hits > 0) facts.push(`${snapshot.hits} ${snapshot.hits === 1 ? 'hit' : 'hits'}`);
    facts.push(snapshot.in_use ? 'being restored' : ago(snapshot.idle_s));
    if (snapshot.pinned) facts.push('named');
  } else if (gone) {
    facts.push(reasonWords(gone));
  }
  if (computing) facts.push('being computed');
  return facts.join(' · ');
}

function summaryOf(row) {
  const held = row.map(one => one.snapshot).filter(Boolean);
  const last = row.at(-1);
  if (row.length === 1 || held.length < 2) return factsOf(held.length === 1 ? row.find(one => one.snapshot) : last);
  const hits = held.reduce((sum, one) => sum + one.hits, 0);
  return [`${held.length} snapshots`, bytes(held.reduce((sum, one) => sum + one.bytes, 0)), ...(hits > 0 ? [`${hits} ${hits === 1 ? 'hit' : 'hits'}`] : []),
    held.some(one => one.in_use) ? 'being restored' : ago(Math.min(...held.map(one => one.idle_s))),
    ...(row.some(one => one.computing) ? ['being computed'] : [])].join(' · ');
}

export class CacheTree {
  constructor() {
    this.most = kRows;
    this.opened = new Set();  // rows whose snapshots are listed
  }

  row(row, level, longest, space) {
    const last = row.at(-1);
    const tokens = row.reduce((sum, one) => sum + one.tokens, 0);
    const words = level > 0 ? `+${count(tokens)} to ${count(last.depth)}` : last.depth === 1 ? '1 token' : `${count(last.depth)} tokens`;
    const label = [element('b', {}, words), summaryOf(row)];
    const listed = row.filter(one => one.snapshot || one.gone);
    const out = element('li', {});
    out.style.setProperty('--level', Math.min(level, 8));
    if (listed.length < 2) {
      const gone = last.gone && !last.snapshot ? kReasons[last.gone]?.[1] ?? '' : '';
      out.append(element('span', { class: 'label', title: gone }, ...label), track(row, longest));
      return out;
    }
    const key = [space, last.depth, tokens].join();
    const details = element('details', { class: 'label', open: this.opened.has(key) }, element('summary', {}, ...label),
      element('ul', {}, ...listed.map(one => element('li', {}, element('b', {}, count(one.depth)), factsOf(one)))));
    details.addEventListener('toggle', () => (details.open ? this.opened.add(key) : this.opened.delete(key)));
    out.append(details, track(row, longest));
    return out;
  }

  /** `tiers`: what keeps snapshots outside the device. */
  render(model, tiers) {
    const out = element('section', { class: 'block' }, element('h3', {}, 'Prompts it knows'));
    const all = model.spaces.map(space => rowsOf(space.nodes));
    const rows = all.reduce((sum, one) => sum + one.length, 0);
    const below = tiers.filter(tier => tier.bytes > 0);
    if (rows === 0) {
      out.append(element('p', { class: 'aside' }, below.length === 0 ? 'None yet.' : 'None on the device yet.'));
    } else {
      out.append(element('p', { class: 'aside' }, 'From the first token on the left. A mark is a snapshot: a prompt that begins the same is restored from there.'));
    }
    for (const tier of below) {
      out.append(element('p', { class: 'aside known-below' }, `${bytes(tier.bytes)} of snapshots are known ${tierPlace(tier.tier)}: ` +
        'a prompt that begins like one of them is restored from there.'));
    }
    let left = this.most;
    model.spaces.forEach((space, i) => {
      if (left <= 0) return;
      const name = [space.tenant, space.salted ? 'with a salt' : '', space.adapter ? 'with an adapter' : ''].filter(Boolean).join(', ');
      if (name !== '') out.append(element('h4', {}, name));
      const longest = Math.max(...space.nodes.map(node => node.depth));
      const shown = all[i].slice(0, left);
      left -= shown.length;
      out.append(element('ul', { class: 'tree' }, ...shown.map(([row, level]) => this.row(row, level, longest, i))));
    });
    if (rows > this.most) {
      const more = element('button', { type: 'button', class: 'quiet small' }, `Show more of ${rows}`);
      more.addEventListener('click', () => {
        this.most += 500;
        out.replaceWith(this.render(model, tiers));
      });
      out.append(more);
    }
    if (model.cut) out.append(element('p', { class: 'aside' }, model.note ?? 'There are more: those used last are here.'));
    return out;
  }
}
