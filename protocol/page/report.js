// What the cache did for a prompt, in words and as a bar: restored, known but computed again, new.

import { element } from './element.js';

/** Of each reason why no more was restored: in short, and what it means (docs/cache.md). */
export const kReasons = {
  none: ['All that was known was restored', 'Every token that the cache knew was restored.'],
  never_seen: ['A new beginning', 'No earlier prompt begins like this one.'],
  no_checkpoint: ['No snapshot at its end', 'It goes on from an earlier prompt, but no snapshot was taken where that one ends.'],
  diverged: ['It parts from earlier prompts', 'It differs from earlier prompts, and there is no snapshot at that position yet. One is taken there from now on.'],
  evicted: ['The snapshot made room', 'There was a snapshot, and it was dropped to make room for others.'],
  expired: ['The snapshot was unused for too long', 'There was a snapshot, and it was not used for longer than it is kept.'],
  unhealthy: ['The state was not finite', 'The state there was not finite and was not kept.'],
  corrupt: ['The snapshot was damaged', 'The snapshot failed its check and was dropped.'],
  lost: ['The snapshots were lost', 'The snapshots went with the model or its device.'],
  no_memory: ['No memory to restore into', 'There was no memory to restore the snapshot into.'],
  below_minimum: ['Fewer than the request wanted', 'Fewer tokens could be restored than the request wanted at least.'],
  refused: ['The request did not want it', 'The request said that the cache is not to be used.'],
  disabled: ['No cache', 'The server runs without a cache.'],
  slower_than_computing: ['Computing was quicker', 'It is stored, and reading it would have taken longer.'],
  other_arithmetic: ['From another build or device', 'It is stored, and another build or device has computed it.'],
  uncacheable: ['Cannot be cached', 'This model or request cannot be cached.'],
};

/** Where snapshots are taken: in short, and in words that go on from "restored". */
export const kOrigins = {
  system: ['system message', 'after the system message'], last_user: ['last message', 'where the last message began'],
  branch: ['branch', 'where prompts part'], spaced: ['on the way', 'on the way'],
  breakpoint: ['breakpoint', 'where the client asked for it'], history: ['history', 'after the history'],
  prompt_end: ['prompt', 'at the prompt’s end'], turn_end: ['reply', 'after the reply'], reply: ['within a reply', 'within a reply'],
  call: ['tool call', 'before a tool call'], tool: ['tool result', 'after a tool’s result'],
};

export const reasonWords = reason => kReasons[reason]?.[0] ?? reason;
export const originWords = origin => kOrigins[origin]?.[0] ?? origin;
export const tierWords = tier => ({ device: 'device', host: 'host memory', disk: 'disk', remote: 'remote store' })[tier] ?? tier;

/** Where a tier keeps its snapshots. */
export const tierPlace = tier => ({ host: 'in host memory', disk: 'on disk', remote: 'in the remote store' })[tier] ?? 'in ' + tier;

/** Of a stream's last event, as it is kept with the reply. */
export function reportOf(event) {
  const said = event.reprise;
  if (!said) return null;
  return {
    prompt: event.usage?.prompt_tokens ?? said.restored_tokens + said.prefilled_tokens,
    reply: event.usage?.completion_tokens ?? 0,
    restored: said.restored_tokens, computed: said.prefilled_tokens, reason: said.miss_reason, known: said.miss_position,
    lost: said.lost_tokens, from: said.restored_from, tier: said.restored_tier, waited: said.waited_for_other === true,
    first_ms: said.first_token_ms, prefill_ms: said.prefill_ms, queued_ms: said.queued_ms, decode_ms: said.decode_ms,
  };
}

/** Of a reply that did not come to its end: what was learned of it on the way, or null. */
export function reportOfPart({ progress, timings, first_ms }) {
  if (!progress && !timings) return null;
  const restored = timings?.cache_n ?? progress.cache;
  const computed = timings?.prompt_n ?? progress.processed - progress.cache;
  return {
    prompt: timings ? restored + computed : progress.total, reply: timings?.predicted_n ?? 0, restored, computed, first_ms,
    prefill_ms: timings?.prompt_ms, decode_ms: timings?.predicted_ms,
  };
}

const counted = new Intl.NumberFormat('en-US');
export const count = number => counted.format(number);

export function bytes(amount) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (amount >= 1024 && unit < units.length - 1) {
    amount /= 1024;
    ++unit;
  }
  return (unit === 0 || amount >= 100 ? Math.round(amount) : amount.toFixed(1)) + ' ' + units[unit];
}

/** Of a reply that grows. `context`: tokens that prompt and reply may have together, 0: not known. */
export function liveWords(timings, context) {
  const used = timings.cache_n + timings.prompt_n + timings.predicted_n;
  const words = [contextWords(used, context)];
  if (timings.predicted_n > 1) words.unshift(rateWords(timings.predicted_per_second));
  return words.join(' · ');
}

export const contextWords = (used, context) => (context > 0 ? `${count(used)} of ${count(context)} tokens of context` : `${count(used)} tokens of context`);
const rateWords = rate => rate.toFixed(rate < 10 ? 1 : 0) + ' tokens/s';

export function milliseconds(ms) {
  if (!(ms >= 0)) return '–';
  return ms < 10 ? ms.toFixed(1) + ' ms' : ms < 1000 ? Math.round(ms) + ' ms' : (ms / 1000).toFixed(ms < 10_000 ? 2 : 1) + ' s';
}

export const percent = (part, whole) => (whole > 0 ? Math.floor(100 * part / whole) : 0) + ' %';

export function speed(report) {
  const each = report.reply - 1;
  return each > 0 && report.decode_ms > 0 ? each / (report.decode_ms / 1000) : null;
}

/** A bar of parts [class, tokens, title]. */
export function bar(parts, label) {
  const node = element('div', { class: 'meter', role: 'img', 'aria-label': label });
  for (const [kind, amount, title] of parts) {
    if (!(amount > 0)) continue;
    const part = element('span', { class: kind, title });
    part.style.flexGrow = amount;
    node.append(part);
  }
  return node;
}

/** A class by how much of a prompt was restored: most of it, some, or next to nothing. */
export const shareClass = (part, whole) => 'share ' + (2 * part >= whole && part > 0 ? 'most' : 10 * part >= whole && part > 0 ? 'some' : 'little');

/** The line beneath a reply, which unfolds to the bar. */
export function reportNode(report) {
  const rate = speed(report);
  const facts = element('summary', {},
    element('span', { class: shareClass(report.restored, report.prompt) }, percent(report.restored, report.prompt) + ' cached'),
    ...(report.first_ms >= 0 ? [element('span', {}, 'first token ' + milliseconds(report.first_ms))] : []),
    element('span', {}, rate === null ? report.reply + ' tokens' : rateWords(rate)));
  const lost = Math.min(report.lost ?? 0, report.computed);
  const fresh = Math.max(0, report.computed - lost);
  const legend = element('ul', { class: 'legend' });
  const row = (kind, amount, words) => {
    if (amount > 0) legend.append(element('li', { class: kind }, element('b', {}, String(amount)), ' ' + words));
  };
  row('restored', report.restored, `restored${report.tier ? ' from the ' + tierWords(report.tier) : ''}${report.from ? ', ' + (kOrigins[report.from]?.[1] ?? report.from) : ''}`);
  row('lost', lost, 'known, and computed again');
  row('computed', fresh, 'new, computed');
  const node = element('details', { class: 'report' }, facts, element('div', { class: 'report-body' },
    bar([['restored', report.restored, `${report.restored} restored`], ['lost', lost, `${lost} computed again`],
      ['computed', fresh, `${fresh} computed`]],
    `Of ${report.prompt} tokens of the prompt ${report.restored} were restored and ${report.computed} computed`),
    legend,
    element('p', {}, (report.reason ? kReasons[report.reason]?.[1] ?? report.reason : 'The reply did not come to its end.') +
      (report.waited ? ' It waited for another request with the same beginning.' : '')),
    element('p', { class: 'times' }, [`${report.prompt} tokens in, ${report.reply} out`,
      ...[['queue', report.queued_ms], ['prompt', report.prefill_ms], ['reply', report.decode_ms]].filter(([, ms]) => ms >= 0)
        .map(([what, ms]) => `${what} ${milliseconds(ms)}`)].join(' · '))));
  return node;
}
