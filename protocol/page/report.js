// What the cache did for a prompt, in words and as a bar: restored, known but computed again, new.

import { element } from './markdown.js';

/** What each reason means, as docs/cache.md has it. */
export const kReasons = {
  none: 'Everything that was known was restored.',
  never_seen: 'No earlier prompt begins like this one.',
  no_checkpoint: 'It goes on from an earlier prompt, but no snapshot stands where that one ends.',
  diverged: 'It takes another way than earlier prompts, and no snapshot stands there yet. The place is kept from now on.',
  evicted: 'A snapshot stood there and had to give way.',
  expired: 'A snapshot stood there for longer than it may without being used.',
  unhealthy: 'The state there was not finite and was not kept.',
  corrupt: 'The snapshot failed its check and was dropped.',
  lost: 'The snapshots went with the model or its device.',
  no_memory: 'There was no memory to restore the snapshot into.',
  below_minimum: 'Fewer tokens could be restored than the request wanted at least.',
  refused: 'The request said that the cache is not to be used.',
  disabled: 'The server runs without a cache.',
  slower_than_computing: 'It is stored, and reading it would have taken longer.',
  other_arithmetic: 'It is stored, from another build or device.',
  uncacheable: 'This model or request cannot be cached.',
};

/** Where snapshots are taken. */
export const kOrigins = {
  system: 'behind the system message', last_user: 'where the last message began', branch: 'where prompts part',
  spaced: 'on the way', breakpoint: 'where the client wished', history: 'behind the history', prompt_end: 'at the prompt’s end',
  turn_end: 'behind the reply', reply: 'inside a reply', call: 'before a tool call', tool: 'behind a tool’s result',
};

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

/** The line beneath a reply, which unfolds to the bar. */
export function reportNode(report) {
  const rate = speed(report);
  const facts = element('summary', {},
    element('span', { class: 'share' }, percent(report.restored, report.prompt) + ' cached'),
    element('span', {}, 'first token ' + milliseconds(report.first_ms)),
    element('span', {}, rate === null ? report.reply + ' tokens' : rate.toFixed(rate < 10 ? 1 : 0) + ' tokens/s'));
  const lost = Math.min(report.lost ?? 0, report.computed);
  const fresh = Math.max(0, report.computed - lost);
  const legend = element('ul', { class: 'legend' });
  const row = (kind, amount, words) => {
    if (amount > 0) legend.append(element('li', { class: kind }, element('b', {}, String(amount)), ' ' + words));
  };
  row('restored', report.restored, `restored${report.tier ? ' from the ' + report.tier : ''}${report.from ? ', ' + (kOrigins[report.from] ?? report.from) : ''}`);
  row('lost', lost, 'known, and computed again');
  row('computed', fresh, 'new, computed');
  const node = element('details', { class: 'report' }, facts, element('div', { class: 'report-body' },
    bar([['restored', report.restored, `${report.restored} restored`], ['lost', lost, `${lost} computed again`],
      ['computed', fresh, `${fresh} computed`]],
    `Of ${report.prompt} tokens of the prompt ${report.restored} were restored and ${report.computed} computed`),
    legend,
    element('p', {}, element('code', {}, report.reason), ' ' + (kReasons[report.reason] ?? '') +
      (report.waited ? ' It waited for another request with the same beginning.' : '')),
    element('p', { class: 'times' }, `${report.prompt} tokens in, ${report.reply} out · queue ${milliseconds(report.queued_ms)} · prompt ${milliseconds(report.prefill_ms)} · reply ${milliseconds(report.decode_ms)}`)));
  return node;
}
