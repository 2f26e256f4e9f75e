// The tree of prompts: one row for each stretch that nothing parts, drawn where it stands between the first token and the
// longest prompt's last, with a mark at its end where a snapshot is.

import { element } from './markdown.js';
import { kOrigins, kReasons } from './report.js';

const kRows = 200;  // before more is asked for

function ago(seconds) {
  if (seconds < 60) return Math.floor(seconds) + ' s ago';
  if (seconds < 3600) return Math.floor(seconds / 60) + ' min ago';
  return seconds < 86400 ? Math.floor(seconds / 3600) + ' h ago' : Math.floor(seconds / 86400) + ' days ago';
}

function size(bytes) {
  return bytes < 1 << 20 ? Math.ceil(bytes / 1024) + ' KiB' : (bytes / (1 << 20)).toFixed(1) + ' MiB';
}

/** Indices of the nodes, children behind their parents, with their level. */
function inOrder(nodes) {
  const children = nodes.map(() => []);
  const roots = [];
  nodes.forEach((node, i) => (node.parent === null ? roots : children[node.parent]).push(i));
  const out = [];
  const left = roots.reverse().map(i => [i, 0]);
  while (left.length > 0) {
    const [i, level] = left.pop();
    out.push([i, level]);
    for (const child of children[i].reverse()) left.push([child, level + 1]);
  }
  return out;
}

function row(node, level, longest) {
  const { snapshot } = node;
  const track = element('span', { class: 'track', 'aria-hidden': 'true' });
  const stretch = element('span', { class: 'stretch' + (snapshot ? '' : ' bare') });
  stretch.style.insetInlineStart = 100 * (node.depth - node.tokens) / longest + '%';
  stretch.style.width = 100 * node.tokens / longest + '%';
  const trunk = element('span', { class: 'trunk' });
  trunk.style.width = stretch.style.insetInlineStart;
  track.append(trunk, stretch);
  if (snapshot || node.gone) {
    const mark = element('span', { class: 'mark ' + (snapshot ? 'origin-' + snapshot.origin : 'gone') });
    mark.style.insetInlineStart = 100 * node.depth / longest + '%';
    track.append(mark);
  }
  const words = level > 0 ? `+${node.tokens} to ${node.depth}` : node.depth === 1 ? '1 token' : `${node.depth} tokens`;
  const label = element('span', { class: 'label' }, element('b', {}, words));
  if (snapshot) {
    label.append(element('span', { class: 'origin', title: kOrigins[snapshot.origin] ?? '' }, snapshot.origin),
      [snapshot.tier, size(snapshot.bytes), ...(snapshot.hits > 0 ? [`${snapshot.hits} ${snapshot.hits === 1 ? 'hit' : 'hits'}`] : []),
        snapshot.in_use ? 'being restored' : ago(snapshot.idle_s), ...(snapshot.pinned ? ['named'] : [])].join(' · '));
  } else if (node.gone) {
    label.append(element('span', { class: 'origin', title: kReasons[node.gone] ?? '' }, node.gone));
  }
  if (node.computing) label.append(element('span', { class: 'badge' }, 'being computed'));
  return element('li', {}, label, track);
}

export class CacheTree {
  constructor() {
    this.most = kRows;
  }

  render(model) {
    const out = element('section', { class: 'block' }, element('h3', {}, 'Prompts it knows'));
    const all = model.spaces.reduce((sum, space) => sum + space.nodes.length, 0);
    if (all === 0) {
      out.append(element('p', { class: 'aside' }, 'None yet. The first prompt will stand here.'));
      return out;
    }
    out.append(element('p', { class: 'aside' }, 'From the first token on the left. A mark is a snapshot: a prompt that begins the same is restored from there.'));
    let left = this.most;
    for (const space of model.spaces) {
      if (left <= 0) break;
      const name = [space.tenant, space.salted ? 'with a salt' : '', space.adapter ? 'with an adapter' : ''].filter(Boolean).join(', ');
      if (name !== '') out.append(element('h4', {}, name));
      const longest = Math.max(...space.nodes.map(node => node.depth));
      const rows = inOrder(space.nodes).slice(0, left);
      left -= rows.length;
      out.append(element('ul', { class: 'tree' }, ...rows.map(([i, level]) => row(space.nodes[i], level, longest))));
    }
    if (all > this.most) {
      const more = element('button', { type: 'button', class: 'quiet small' }, `Show more of ${all}`);
      more.addEventListener('click', () => {
        this.most += 500;
        out.replaceWith(this.render(model));
      });
      out.append(more);
    }
    if (model.cut) out.append(element('p', { class: 'aside' }, model.note ?? 'There are more: those used last are here.'));
    return out;
  }
}
