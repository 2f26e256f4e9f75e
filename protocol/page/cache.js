// The cache at work: what the server tells of it (GET v1/cache), again and again while it is looked at, and what the
// replies of this browser were restored from. Lengths and places alone: the server tells no text.

import { ApiFailure, getJson, postJson } from './api.js';
import { CacheTree } from './cache_tree.js';
import * as conversations from './conversations.js';
import { element } from './element.js';
import { bar, bytes, count, kReasons, percent, reasonWords, shareClass, tierPlace, tierWords } from './report.js';
import { settings } from './settings.js';

const kEvery = 2000;  // milliseconds between two looks
const kPoints = 60;  // of a curve

function svg(name, attributes, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/** A curve of numbers (null: nothing to tell), from the oldest to the newest. */
function curve(values, most, label) {
  const known = values.map((value, i) => [i, value]).filter(([, value]) => value !== null);
  const x = i => (100 * (i + kPoints - values.length) / (kPoints - 1)).toFixed(2);
  const y = value => (29 - 27 * Math.min(1, Math.max(0, value / most))).toFixed(2);
  return svg('svg', { viewBox: '0 0 100 30', preserveAspectRatio: 'none', class: 'curve', role: 'img', 'aria-label': label },
    svg('path', { d: 'M0 29.5H100', class: 'axis' }),
    ...(known.length > 1 ? [svg('path', { d: 'M' + known.map(([i, value]) => x(i) + ' ' + y(value)).join('L'), class: 'line' })] : []),
    ...known.slice(-1).map(([i, value]) => svg('path', { d: `M${x(i)} ${y(value)}v0.01`, class: 'end' })));
}

const card = (title, value, ...more) => element('section', { class: 'card' }, element('h3', {}, title), element('p', { class: 'figure' }, value), ...more);
const many = (number, one, several) => `${count(number)} ${number === 1 ? one : several}`;

/** How often each reason was given; steps: the counts before and after, of one look after the other, for curves. */
function reasonList(counts, lost, steps = []) {
  const rows = Object.entries(counts ?? {}).sort((a, b) => b[1] - a[1]);
  const most = Math.max(1, ...rows.map(([, count]) => count));
  if (rows.length === 0) return element('p', { class: 'aside' }, 'Nothing was looked up yet.');
  return element('ul', { class: 'reasons' }, ...rows.map(([reason, times]) => element('li', { title: kReasons[reason]?.[1] ?? '' },
    element('span', { class: 'reason' }, reasonWords(reason)), bar([[reason === 'none' ? 'restored' : 'lost', times, ''], ['rest', most - times, '']], `${times} of ${most}`),
    element('span', { class: 'count' }, many(times, 'prompt', 'prompts') + (lost?.[reason] ? `, ${count(lost[reason])} tokens computed again` : '')), ...reasonCurve(reason, steps))));
}

/** When a reason was given, if it was while somebody looked. */
function reasonCurve(reason, steps) {
  const given = steps.map(([before, now]) => (now.reasons?.[reason] ?? 0) - (before.reasons?.[reason] ?? 0));
  const most = Math.max(0, ...given);
  return most > 0 ? [curve(given, most, `${reasonWords(reason)}, over the last minutes`)] : [];
}

export class CacheView {
  /** `changed`: a model was loaded or unloaded. */
  constructor(host, changed) {
    this.host = host;
    this.changed = changed;
    this.timer = null;
    this.looks = new Map();  // of each model: counts at one time after the other
    this.trees = new Map();  // of each model
    this.note = '';
  }

  open() {
    this.refresh();
  }

  close() {
    clearTimeout(this.timer);
    this.timer = null;
  }

  async refresh() {
    this.close();
    if (this.host.hidden) return;
    let seen = null;
    try {
      seen = await getJson('v1/cache', settings.key);
      this.note = '';
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error;
      this.note = error.status === 404 ? 'This server does not show its cache.' : error.message;
    }
    if (this.host.hidden) return;
    if (!this.isBeingUsed()) this.render(seen);
    this.close();
    this.timer = setTimeout(() => (document.hidden ? this.wait() : this.refresh()), kEvery);
  }

  /** Until somebody looks again. */
  wait() {
    document.addEventListener('visibilitychange', () => this.refresh(), { once: true });
  }

  /** What the keyboard stands on, or what is marked to be copied, is not taken away. */
  isBeingUsed() {
    const selection = getSelection();
    return this.host.contains(document.activeElement) && document.activeElement !== this.host ||
      !selection.isCollapsed && this.host.contains(selection.anchorNode);
  }

  render(seen) {
    const top = this.host.scrollTop;
    const parts = [];
    for (const model of seen?.models ?? []) parts.push(...this.model(model, seen.scope === 'all', seen.models.length > 1, seen.tiers ?? []));
    if (seen?.tiers?.length > 0) parts.push(this.tiers(seen.tiers));
    this.host.replaceChildren(element('div', { class: 'cache-page' },
      ...(this.note ? [element('p', { class: 'aside' }, this.note)] : []), ...parts, this.ownReplies()));
    this.host.scrollTop = top;
  }

  model(model, operates, several, tiers) {
    const out = [element('header', { class: 'cache-head' }, element('h2', {}, several || model.state !== 'ready' ? model.model : 'Cache of ' + model.model),
      ...(model.state === 'ready' ? [] : [element('span', { class: 'badge' }, model.state)]), ...(operates ? [this.actions(model)] : []))];
    if (!model.cached) {
      if (model.state === 'ready') out.push(element('p', { class: 'aside' }, 'This model runs without a cache.'));
      return out;
    }
    const counts = model.counts;
    if (counts) {
      const before = this.looks.get(model.model) ?? [];
      const looks = before.at(-1)?.lookups > counts.lookups ? [] : before;  // it was loaded anew
      looks.push(counts);
      if (looks.length > kPoints + 1) looks.shift();
      this.looks.set(model.model, looks);
      const steps = looks.slice(1).map((now, i) => [looks[i], now]);
      const rates = steps.map(([before, now]) => (now.prompt_tokens > before.prompt_tokens ?
        (now.restored_tokens - before.restored_tokens) / (now.prompt_tokens - before.prompt_tokens) : null));
      const gone = steps.map(([before, now]) => Math.max(0, now.evicted + now.expired - before.evicted - before.expired));
      out.push(element('div', { class: 'cards' },
        card('Hit rate', element('span', { class: shareClass(counts.restored_tokens, counts.prompt_tokens) }, percent(counts.restored_tokens, counts.prompt_tokens)), element('p', { class: 'aside' },
          `${count(counts.restored_tokens)} of ${count(counts.prompt_tokens)} prompt tokens restored`), curve(rates, 1, 'Hit rate over the last minutes')),
        card('Memory', bytes(counts.bytes), element('p', { class: 'aside' }, `of ${bytes(counts.budget_bytes)}`),
          bar([['restored', counts.bytes, ''], ['rest', Math.max(0, counts.budget_bytes - counts.bytes), '']], `${bytes(counts.bytes)} of ${bytes(counts.budget_bytes)}`)),
        card('Snapshots', count(counts.entries), element('p', { class: 'aside' }, [`${count(counts.superseded)} replaced by later ones`,
          ...(counts.computing > 0 ? [`${count(counts.computing)} being computed`] : []),
          ...tiers.filter(tier => tier.bytes > 0).map(tier => `${bytes(tier.bytes)} ${tierPlace(tier.tier)}`)].join(', '))),
        card('Made room', count(counts.evicted + counts.expired), element('p', { class: 'aside' },
          `${count(counts.evicted)} dropped for others, ${count(counts.expired)} unused for too long`),
          curve(gone, Math.max(1, ...gone), 'Snapshots that made room, over the last minutes'))),
      element('section', { class: 'block' }, element('h3', {}, 'What was restored, and why no more'), reasonList(counts.reasons, counts.lost_tokens, steps)));
    }
    const tree = this.trees.get(model.model) ?? new CacheTree();
    this.trees.set(model.model, tree);
    out.push(tree.render(model, tiers));
    return out;
  }

  actions(model) {
    const act = async (from, path, question) => {
      if (question && !confirm(question)) return;
      from.disabled = true;
      try {
        await postJson(path, { model: model.model }, settings.key);
      } catch (error) {
        if (!(error instanceof ApiFailure)) throw error;
        alert(error.message);
      }
      from.blur();
      this.refresh();
      this.changed();
    };
    const button = (words, path, question) => {
      const node = element('button', { type: 'button', class: 'quiet small' }, words);
      node.addEventListener('click', () => act(node, path, question));
      return node;
    };
    if (model.state === 'unloaded') return element('span', { class: 'actions' }, button('Load', 'v1/models/load'));
    if (model.state !== 'ready') return element('span');
    return element('span', { class: 'actions' },
      ...(model.cached ? [button('Drop snapshots', 'v1/cache/drop', `Drop all snapshots of ${model.model} that its device holds?`)] : []),
      button('Unload', 'v1/models/unload', `Unload ${model.model}? Requests that use it fail.`));
  }

  tiers(tiers) {
    return element('section', { class: 'block' }, element('h3', {}, 'Kept outside the device'), element('ul', { class: 'reasons' }, ...tiers.map(tier =>
      element('li', {}, element('span', { class: 'reason' }, tierWords(tier.tier) + (tier.off ? ' (off)' : '')),
        bar([['restored', tier.bytes, ''], ['rest', Math.max(0, tier.budget_bytes - tier.bytes), '']], `${bytes(tier.bytes)} of ${bytes(tier.budget_bytes)}`),
        element('span', { class: 'count' }, `${bytes(tier.bytes)}; since the start ${count(tier.stored)} written, ${count(tier.loaded)} read`)))));
  }

  ownReplies() {
    const reports = conversations.all().flatMap(one => Object.values(one.nodes)).filter(node => node.report)
      .sort((a, b) => a.at - b.at).map(node => node.report);
    const sum = field => reports.reduce((total, report) => total + report[field], 0);
    const reasons = {};
    const lost = {};
    for (const report of reports) {
      reasons[report.reason] = (reasons[report.reason] ?? 0) + 1;
      if (report.lost > 0) lost[report.reason] = (lost[report.reason] ?? 0) + report.lost;
    }
    return element('section', { class: 'block' }, element('h3', {}, 'Replies kept in this browser'),
      element('p', { class: 'aside' }, reports.length === 0 ? 'None yet.' :
        `${percent(sum('restored'), sum('prompt'))} of ${sum('prompt')} prompt tokens were restored, in ${reports.length} ${reports.length === 1 ? 'reply' : 'replies'}.`),
      ...(reports.length > 0 ? [curve(reports.slice(-kPoints).map(report => (report.prompt > 0 ? report.restored / report.prompt : null)), 1,
        'Share restored, reply by reply'), reasonList(reasons, lost)] : []));
  }
}
