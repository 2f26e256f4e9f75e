// What the page shows of replies and of the cache, and what goes in and out of it as files; against staged.py.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { ask, assertNoOverflow, field, replies, say, settled, STAGED } from './browser.mjs';
import { openStaged, post, requests, step } from './stage.mjs';

const wide = { viewport: { width: 1280, height: 900 } };
const library = async name => (await (await fetch(`${STAGED}/page/vendor/${name}.js`)).text()) !== '';
const plain = (name, text, type = 'text/plain') => ({ name, mimeType: type, buffer: Buffer.from(text) });

const counts = more => ({ bytes: 3 << 20, budget_bytes: 1 << 30, entries: 3, path_tokens: 9, computing: 0, lookups: 4, prompt_tokens: 1000, restored_tokens: 20,
  evicted: 3, expired: 1, superseded: 2, reasons: { none: 3, evicted: 1 }, lost_tokens: { evicted: 40 }, hits: {}, inserts: {}, ...more });
const cacheOf = (nodes, tiers = [], more = {}) => ({ scope: 'all', tiers, models: [{ model: 'staged', state: 'ready', cached: true, counts: counts(more),
  spaces: nodes.length > 0 ? [{ salted: false, adapter: false, entries: nodes.length, tenant: '', nodes }] : [], spaces_in_all: 1, cut: false }] });
const node = (parent, depth, tokens, snapshot = {}) => ({ parent, depth, tokens, snapshot: { origin: 'spaced', tier: 'device', bytes: 1 << 20, hits: 0, idle_s: 5,
  in_use: false, pinned: false, ...snapshot } });
const openCache = async page => {
  await page.getByRole('button', { name: 'Cache', exact: true }).click();
  await page.locator('.cache-head').waitFor();
};

export const viewTests = {
  async 'the cache is shown in words of people'(browser) {
    const { page, close } = await openStaged(browser, wide);
    await post('/stage/set', { cache: cacheOf([node(null, 100, 100)]) });
    await openCache(page);
    const shown = await page.locator('#cache-view').innerText();
    assert.match(shown, /All that was known was restored/);
    assert.match(shown, /The snapshot made room/);
    assert.match(shown, /Made room/);
    assert.doesNotMatch(shown, /Gave way|\bnone\b|evicted|\bspaced\b/);
    const colorOf = () => page.locator('.card .share').first().evaluate(one => getComputedStyle(one).color);
    const little = await colorOf();
    await page.getByRole('button', { name: 'Chat', exact: true }).click();
    await post('/stage/set', { cache: cacheOf([node(null, 100, 100)], [], { restored_tokens: 940 }) });
    await openCache(page);
    await page.locator('.card', { hasText: '94 %' }).waitFor();
    assert.notEqual(await colorOf(), little, '2 % and 94 % do not look the same');
    await close();
  },

  async 'snapshots on disk are known after a restart'(browser) {
    const { page, close } = await openStaged(browser, wide);
    await post('/stage/set', { cache: cacheOf([], [{ tier: 'disk', off: false, bytes: 12 << 20, budget_bytes: 1 << 30, stored: 0, loaded: 0, evicted: 0 }], { entries: 0, lookups: 0 }) });
    await openCache(page);
    await page.getByText('12.0 MiB of snapshots are known on disk').waitFor();
    assert.match(await page.locator('.card', { hasText: 'Snapshots' }).innerText(), /12\.0 MiB on disk/);
    assert.doesNotMatch(await page.locator('#cache-view').innerText(), /None yet\. The first/);
    await close();
  },

  async 'one long prompt is one row of the tree'(browser) {
    const { page, close } = await openStaged(browser, wide);
    const chain = Array.from({ length: 40 }, (_, i) => node(i === 0 ? null : i - 1, 512 * (i + 1), 512));
    await post('/stage/set', { cache: cacheOf([...chain, node(19, 512 * 20 + 30, 30, { origin: 'history' })]) });
    await openCache(page);
    const rows = page.locator('.tree > li');
    await rows.nth(2).waitFor();
    assert.equal(await rows.count(), 3, 'up to the branch, and two from there');
    assert.match(await rows.first().innerText(), /10,240 tokens\s*20 snapshots · 20\.0 MiB/);
    await rows.first().locator('summary').focus();
    await page.keyboard.press('Enter');
    await rows.first().locator('details[open] li').first().waitFor();
    assert.match(await rows.first().locator('li').first().innerText(), /^512\s*on the way · device · 1\.0 MiB/);
    await assertNoOverflow(page, 'the tree');
    await close();
  },

  async 'shows the speed and the context while a reply grows'(browser) {
    const { page, close } = await openStaged(browser, wide);
    await say(page, 'step');
    await step(5);
    await page.locator('.live', { hasText: '50 tokens/s · 1,002 of 4,096 tokens of context' }).waitFor();
    await step(4);
    await settled(page);
    assert.equal(await page.locator('.live:visible').count(), 0);
    assert.equal(await page.locator('#context').innerText(), '1,004 of 4,096 tokens of context');
    await close();
  },

  async 'formulas and code'(browser) {
    const { page, close } = await openStaged(browser);
    const reply = await ask(page, 'say: So \\(a+b\\) and $x^2$, not $5 and $6.\n\n\\[\n\\frac{1}{2}\n- y\n\\]\n\n\\(\\fcolorbox{red}{blue}{z}\\) \\(\\oops\\) \\(\\href{javascript:window.hacked=1}{u}\\)\n\n```python\ndef f(x):\n    return "<b>"\n```');
    const content = reply.locator('.content');
    if (await library('katex')) {
      await reply.locator('math').nth(4).waitFor({ state: 'attached' });
      assert.equal(await reply.locator('math').count(), 5);
      assert.equal(await reply.locator('[href]').count(), 0);
      assert.equal(await reply.locator('mfrac').count(), 1);
      assert.equal(await content.locator('[style]').count(), 0, 'the policy allows no styles');
    }
    const text = await content.innerText();
    assert.match(text, /not \$5 and \$6/);
    assert.ok(text.includes('\\(\\oops\\)'), 'what is no formula stays as it is written');
    if (await library('hljs')) {
      await reply.locator('.hljs-keyword').first().waitFor();
      assert.equal(await reply.locator('.hljs-string').innerText(), '"<b>"');
    }
    assert.equal(await reply.locator('pre').innerText(), 'def f(x):\n    return "<b>"');
    await close();
  },

  async 'without the libraries the text stays as it is written'(browser) {
    const { page, close } = await openStaged(browser, { prepare: context => context.route('**/page/vendor/*', route => route.fulfill({ contentType: 'text/javascript', body: '' })) });
    const reply = await ask(page, 'say: So \\(a+b\\).\n\n```python\nreturn 1\n```');
    assert.match(await reply.locator('.content').innerText(), /So \\\(a\+b\\\)\./);
    assert.equal(await reply.locator('pre').innerText(), 'return 1');
    await close();
  },

  async 'text files are sent with a message'(browser) {
    const { page, close } = await openStaged(browser);
    await page.locator('#attach-file').setInputFiles([plain('notes.txt', 'figs and tea\n'), plain('list.md', '```\nx\n```\n')]);
    await page.getByRole('button', { name: 'Remove: notes.txt' }).waitFor();
    await page.locator('#attach-file').setInputFiles([{ name: 'picture.png', mimeType: 'image/png', buffer: Buffer.from([0x89, 0x50, 0xff, 0]) }]);
    await page.locator('#toast-words', { hasText: 'picture.png: the file is not text in UTF-8' }).waitFor();
    await ask(page, 'What is in it?');
    assert.deepEqual(await page.locator('.message.user .files li').allInnerTexts(), ['notes.txt', 'list.md']);
    assert.equal((await requests()).at(-1).messages[0].content,
      'notes.txt:\n```\nfigs and tea\n```\n\nlist.md:\n````\n```\nx\n```\n````\n\nWhat is in it?');
    assert.equal(await page.locator('#attached').isVisible(), false);
    await page.reload();
    assert.equal(await page.locator('.message.user .files li').count(), 2);
    await close();
  },

  async 'conversations are searched, exported and imported'(browser) {
    const { page, close } = await openStaged(browser, { ...wide, acceptDownloads: true });
    await ask(page, 'about foxes');
    await page.getByRole('button', { name: 'New conversation' }).click();
    await ask(page, 'about hares');
    const titles = () => page.locator('.conversations .open').allInnerTexts();
    await page.getByRole('searchbox', { name: 'Search conversations' }).fill('FOX');
    assert.deepEqual(await titles(), ['about foxes']);
    await page.getByRole('searchbox', { name: 'Search conversations' }).fill('');
    assert.equal((await titles()).length, 2);

    const downloading = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Export' }).click();
    const text = await readFile(await (await downloading).path(), 'utf8');
    await page.evaluate(() => localStorage.clear());
    await page.evaluate(() => sessionStorage.clear());
    await page.reload();
    assert.deepEqual(await titles(), []);
    await page.locator('#import-file').setInputFiles([plain('all.json', text, 'application/json')]);
    await page.locator('#toast-words', { hasText: 'Imported: 2.' }).waitFor();
    assert.deepEqual((await titles()).sort(), ['about foxes', 'about hares']);
    await page.locator('.conversations .open', { hasText: 'about foxes' }).click();
    assert.match(await replies(page).last().locator('.content').innerText(), /You said: about foxes/);

    const broken = JSON.parse(text);
    const [first] = Object.values(broken.conversations[0].nodes);
    first.parent = first.id;
    for (const [words, why] of [['{', 'the file is not JSON'], ['{}', 'the file has no conversations of Reprise'], [JSON.stringify(broken), 'conversation 1 of the file cannot be read']]) {
      await page.locator('#import-file').setInputFiles([plain('bad.json', words, 'application/json')]);
      await page.locator('#toast-words', { hasText: `bad.json: ${why}.` }).waitFor();
    }
    assert.equal((await titles()).length, 2);
    await close();
  },

  async 'a conversation has settings of its own'(browser) {
    const { page, close } = await openStaged(browser, wide);
    const set = async (scope, fields) => {
      await page.getByRole('button', { name: 'Settings' }).click();
      await page.getByLabel('These hold for').selectOption(scope);
      await page.locator('#settings details').evaluate(details => { details.open = true; });
      for (const [label, value] of Object.entries(fields)) await page.getByLabel(label, { exact: true }).fill(value);
      await assertNoOverflow(page, 'the settings');
      await page.getByRole('button', { name: 'Done' }).click();
    };
    await set('all', { 'System prompt': 'Be brief.', 'Min p': '0.1', 'Stop at, one per line': 'END\nSTOP' });
    await ask(page, 'first');
    await set('own', { 'System prompt': 'Be long.', Temperature: '0.5', 'Top k': '7' });
    await ask(page, 'second');
    const own = (await requests()).at(-1);
    assert.equal(own.messages[0].content, 'Be long.');
    assert.deepEqual([own.temperature, own.top_k, own.min_p, own.stop], [0.5, 7, 0.1, ['END', 'STOP']]);
    await page.reload();
    await ask(page, 'third');
    assert.equal((await requests()).at(-1).messages[0].content, 'Be long.', 'kept with the conversation');
    await page.getByRole('button', { name: 'New conversation' }).click();
    await ask(page, 'fourth');
    const other = (await requests()).at(-1);
    assert.equal(other.messages[0].content, 'Be brief.');
    assert.deepEqual([other.temperature, other.top_k, other.min_p], [undefined, undefined, 0.1]);
    await close();
  },

  async 'the model is chosen on the chat'(browser) {
    const { page, close } = await openStaged(browser);
    await post('/stage/set', { models: [{ id: 'small', state: 'ready', max_model_len: 100 }, { id: 'large', state: 'ready', max_model_len: 200 }] });
    await page.reload();
    await page.locator('#model option', { hasText: 'large' }).waitFor({ state: 'attached' });
    await ask(page, 'one');
    assert.equal((await requests()).at(-1).model, undefined, 'the first that is served');
    await page.getByRole('combobox', { name: 'Model' }).focus();
    await page.keyboard.press('ArrowDown');
    assert.equal(await page.getByRole('combobox', { name: 'Model' }).inputValue(), 'large');
    await field(page).focus();
    await ask(page, 'two');
    assert.equal((await requests()).at(-1).model, 'large');
    assert.match(await page.locator('#context').innerText(), /^1,00\d of 200 tokens of context$/);
    await close();
  },
};
