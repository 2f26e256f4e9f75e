// The web page as a user meets it. Nothing here waits for a time: every step waits for what it wants to see.

import assert from 'node:assert/strict';
import { ask, assertNoOverflow, busy, field, KEY, launch, LOCKED, open, REAL, replies, say, SCRIPTED, settled } from './browser.mjs';
import { stagedTests } from './staged_tests.mjs';
import { viewTests } from './view_tests.mjs';

const kHostile = [
  'say: <script>window.hacked = 1</script>', '<img src="https://example.com/a.png" onerror="window.hacked = 2">',
  '![remote](https://example.com/b.png)', '[click me](javascript:window.hacked=3)', '[data](data:text/html,<script>window.hacked=4</script>)',
  '<style>* { display: none !important }</style>', '<iframe src="https://example.com/c"></iframe>', '<svg onload="window.hacked=5">',
  '<a href="javascript:window.hacked=6">raw</a>', '[good](https://example.com/good)', '<https://example.com/angle>',
  '`<b>code</b>`', '```html\n<script>window.hacked = 7</script>\n```', '| a | <img src=x onerror=window.hacked=8> |\n|---|---|\n| 1 | 2 |',
].join('\n\n');

const tests = {
  async 'sends, and a second turn says what was restored'(browser) {
    const { page, close } = await open(browser, REAL);
    const first = await ask(page, 'Hello, I am Ada and I live in Ljubljana.');
    assert.notEqual((await first.locator('.content').innerText()).trim(), '');
    const second = await ask(page, 'What is my name?');
    const summary = await second.locator('.report summary').innerText();
    assert.match(summary, /^\d+ % cached/);
    assert.ok(parseInt(summary, 10) > 0, summary);
    assert.match(summary, /first token .*m?s/);
    await second.locator('.report summary').click();
    await second.locator('.meter .restored').waitFor();
    assert.match(await second.locator('.legend').innerText(), /\d+ restored from the device/);

    await page.reload();
    assert.equal(await replies(page).count(), 2, 'kept in the browser');
    const third = await ask(page, 'My cat is called Miso.');
    assert.ok(parseInt(await third.locator('.report summary').innerText(), 10) > 0, 'goes on where it was');
    await close();
  },

  async 'edits, asks anew and branches'(browser) {
    const { page, close } = await open(browser, REAL);
    await ask(page, 'Hello, I am Ada.');
    await ask(page, 'What is 17 + 25?');
    await page.locator('.message.user').nth(1).getByRole('button', { name: 'Edit' }).click();
    await page.getByRole('textbox', { name: 'Edit the message' }).fill('What is 2 + 2?');
    await page.getByRole('textbox', { name: 'Edit the message' }).press('Enter');
    await page.getByText('What is 2 + 2?').first().waitFor();
    await settled(page);
    assert.equal(await page.locator('.message').count(), 4);
    const edited = page.locator('.message.user').nth(1);
    assert.match(await edited.locator('.ways').innerText(), /2 \/ 2/);
    await edited.getByRole('button', { name: 'The one before' }).click();
    assert.match(await page.locator('.message.user').nth(1).innerText(), /17 \+ 25/);

    await replies(page).last().getByRole('button', { name: 'Regenerate' }).click();
    await replies(page).last().locator('.ways').waitFor();
    await settled(page);
    assert.match(await replies(page).last().locator('.ways').innerText(), /2 \/ 2/);
    assert.ok(parseInt(await replies(page).last().locator('.report summary').innerText(), 10) > 80, 'the same prompt again');

    await replies(page).first().getByRole('button', { name: 'Branch' }).click();
    await page.waitForFunction(() => document.querySelectorAll('.conversations li').length === 2);
    assert.equal(await page.locator('.message').count(), 2);
    await ask(page, 'My cat is called Miso.');
    assert.equal(await page.locator('.message').count(), 4);
    await page.locator('.conversations .open').nth(1).click();
    await page.getByText('What is 17 + 25?').first().waitFor();
    await close();
  },

  async 'shows tokens as they come'(browser) {
    const { page, close } = await open(browser, SCRIPTED);
    await say(page, 'wait half way');
    await page.waitForFunction(() => document.querySelector('.message.assistant .content')?.textContent === 'Hel');
    assert.equal(await busy(page).count(), 1, 'the rest does not exist yet');
    await fetch(SCRIPTED + '/v1/chat/completions', { method: 'POST', headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'release the others' }] }) });
    await settled(page);
    assert.equal(await replies(page).last().locator('.content').innerText(), 'Hello, world!');
    await close();
  },

  async 'stops, by button and by key, and goes on'(browser) {
    const { page, close } = await open(browser, SCRIPTED);
    for (const stop of [() => page.getByRole('button', { name: 'Stop' }).click(), () => page.keyboard.press('Escape')]) {
      await say(page, 'go on slowly');
      await page.waitForFunction(() => [...document.querySelectorAll('.message.assistant .content')].at(-1)?.textContent.includes('word word'));
      await stop();
      await settled(page);
      await replies(page).last().getByText('Stopped.').waitFor();
      assert.match(await replies(page).last().locator('.content').innerText(), /^word word/);
    }
    await ask(page, 'Hello');
    assert.equal(await replies(page).last().locator('.content').innerText(), 'Hello, world!');
    await close();
  },

  async 'folds reasoning, and says what failed'(browser) {
    const { page, close } = await open(browser, SCRIPTED);
    const reply = await ask(page, 'think');
    assert.equal(await reply.locator('.reasoning').evaluate(node => node.open), false);
    assert.match(await reply.locator('.reasoning').textContent(), /Let me see\./);
    assert.equal(await reply.locator(':scope > .content').innerText(), 'Here it is.');
    const failed = await ask(page, 'fail later');
    assert.match(await failed.locator('.failure').innerText(), /the device is on fire/);
    await close();
  },

  async 'hostile replies stay text'(browser) {
    const { page, close } = await open(browser, SCRIPTED);
    const reply = await ask(page, kHostile);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator('.messages').locator('script, img, iframe, style, object, embed, form').count(), 0);
    const links = await reply.locator('.content a').evaluateAll(all => all.map(link => link.getAttribute('href')));
    assert.deepEqual(links.filter(href => !href.startsWith('https://example.com/')), [], 'a link by its scheme');
    assert.ok(links.includes('https://example.com/good'));
    assert.match(await reply.locator('.content').innerText(), /<script>window\.hacked = 1<\/script>/);
    for (const nested of ['> '.repeat(3000) + 'deep', '['.repeat(20_000), '*a '.repeat(5000), '- '.repeat(2000) + 'x', '`'.repeat(9999), '|'.repeat(3000) + '\n' + '|-'.repeat(3000)]) {
      await ask(page, 'say: ' + nested);
    }
    await field(page).fill('still here');
    await close();  // fails where a request went elsewhere, or the policy was broken
  },

  async 'shows the cache, and what is dropped is gone'(browser) {
    const { page, close } = await open(browser, REAL, { viewport: { width: 1280, height: 800 } });
    await ask(page, 'My secret word is xylophone.');
    await ask(page, 'Thank you.');
    const answers = [];  // promises of texts; the page asks again and again, and one may be on its way when it is closed
    page.on('response', response => { if (response.url().endsWith('/v1/cache')) answers.push(response.text().catch(() => '')); });
    await page.getByRole('button', { name: 'Cache', exact: true }).click();
    await page.locator('.tree li').first().waitFor();
    assert.ok(await page.locator('.tree .mark').count() > 1);
    assert.match(await page.locator('.card', { hasText: 'Hit rate' }).innerText(), /\d+ %/);
    assert.ok(await page.locator('.reasons li').count() > 0);
    await page.waitForFunction(() => document.querySelector('.curve .line') !== null || document.querySelectorAll('.curve').length > 1);
    // A reason that is given while somebody looks gets its curve.
    await page.evaluate(() => fetch('v1/chat/completions', { method: 'POST', headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'Something else.' }], max_tokens: 1 }) }));
    await page.locator('.reasons .curve[aria-label$="over the last minutes"] .line').first().waitFor({ timeout: 20_000 });
    const seen = (await Promise.all(answers)).join('');
    assert.notEqual(seen, '');
    assert.ok(!seen.includes('xylophone'), 'lengths and places, never text');
    await page.setViewportSize({ width: 360, height: 740 });
    await assertNoOverflow(page, 'the cache on a phone');
    page.on('dialog', dialog => dialog.accept());
    await page.getByRole('button', { name: 'Drop snapshots' }).click();
    await page.waitForFunction(() => document.querySelectorAll('.tree .mark:not(.gone)').length === 0);
    await close();
  },

  async 'loads and unloads a model'(browser) {
    const { page, close } = await open(browser, REAL);
    page.on('dialog', dialog => dialog.accept());
    await page.getByRole('button', { name: 'Cache', exact: true }).click();
    await page.getByRole('button', { name: 'Unload' }).click();
    await page.getByRole('button', { name: 'Load', exact: true }).click();
    await page.getByRole('button', { name: 'Unload' }).click();
    await page.locator('#model option', { hasText: 'builtin (unloaded)' }).waitFor({ state: 'attached' });
    await page.getByRole('button', { name: 'Chat', exact: true }).click();
    await page.locator('#model-notice').getByRole('button', { name: 'Load' }).click();
    await page.locator('#model-notice').getByText('This is the built-in model').waitFor();
    const reply = await ask(page, 'Hello, I am Ada.');
    assert.equal(await reply.locator('.failure').count(), 0);
    await close();
  },

  async 'the server takes every field of sampling'(browser) {
    const { page, close } = await open(browser, REAL);
    const sent = page.waitForRequest(request => request.url().endsWith('/chat/completions'));
    await page.getByRole('button', { name: 'Settings' }).click();
    await page.locator('#settings details').evaluate(details => { details.open = true; });
    const fields = page.locator('#settings input[type=number]');
    for (const one of await fields.all()) await one.fill('1');
    await page.getByRole('button', { name: 'Done' }).click();
    const reply = await ask(page, 'Hello');
    assert.equal(await reply.locator('.failure').allInnerTexts().then(all => all.join()), '');
    const body = (await sent).postDataJSON();
    for (const name of ['temperature', 'top_k', 'min_p', 'dry_base', 'dry_multiplier', 'xtc_probability']) assert.equal(body[name], 1, name);
    await close();
  },

  async 'keys are asked for'(browser) {
    const { page, close } = await open(browser, LOCKED);
    const key = page.getByLabel('API key', { exact: true });
    await key.waitFor();
    await key.fill('not-the-key');
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByText('The server does not know this API key.').waitFor();
    await key.fill(KEY);
    await page.getByRole('button', { name: 'Done' }).click();
    await page.locator('#banner').waitFor({ state: 'hidden' });
    const reply = await ask(page, 'Hello');
    assert.equal(await reply.locator('.content').innerText(), 'Hello, world!');
    assert.equal(await page.evaluate(() => Object.values(localStorage).join().includes('page-test-key')), false, 'not kept unless asked to be');
    await close(one => one.includes('401'));
  },

  async 'works where nothing may be kept'(browser) {
    const deny = context => context.addInitScript(() => {
      for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, { get() { throw new Error('denied'); } });
    });
    const { page, close } = await open(browser, SCRIPTED, { prepare: deny });
    const reply = await ask(page, 'Hello');
    assert.equal(await reply.locator('.content').innerText(), 'Hello, world!');
    await close();
  },

  async 'fits a phone, large letters and both colours'(browser) {
    const wide = 'say: ' + 'unbroken'.repeat(60) + '\n\n```\n' + 'x'.repeat(400) + '\n```\n\n| a | b |\n|---|---|\n| ' + 'y'.repeat(90) + ' | ' + 'z'.repeat(90) + ' |';
    for (const [name, viewport] of [['phone', { width: 360, height: 740 }], ['200 %', { width: 640, height: 360 }]]) {
      const { page, close } = await open(browser, SCRIPTED, { viewport, colorScheme: name === 'phone' ? 'dark' : 'light' });
      await assertNoOverflow(page, name + ', empty');
      const reply = await ask(page, wide);
      await reply.locator('.report summary').click();
      await assertNoOverflow(page, name + ', a reply');
      assert.ok((await field(page).boundingBox()).y < viewport.height - 20, 'the field is in sight');
      await page.getByRole('button', { name: 'Conversations' }).click();
      await page.getByRole('button', { name: 'New conversation' }).waitFor();
      await assertNoOverflow(page, name + ', the drawer');
      await page.keyboard.press('Escape');
      await page.getByRole('button', { name: 'Settings' }).click();
      await assertNoOverflow(page, name + ', the settings');
      await page.keyboard.press('Escape');
      await page.getByRole('button', { name: 'Cache', exact: true }).click();
      await assertNoOverflow(page, name + ', the cache');
      await close(one => one.includes('404'));  // the scripted server has no cache to show
    }
  },

  async 'the keyboard is enough, and what is written can be read'(browser) {
    const { page, close } = await open(browser, SCRIPTED, { viewport: { width: 1280, height: 800 } });
    await page.keyboard.type('Hello');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.querySelector('.report') !== null);
    const reached = new Set();
    for (let i = 0; i < 40; ++i) {
      await page.keyboard.press('Tab');
      reached.add(await page.evaluate(() => {
        const node = document.activeElement;
        const visible = node === document.body || getComputedStyle(node).outlineStyle !== 'none' || node.id === 'composer-text';
        return (visible ? '' : 'without a ring: ') + (node.getAttribute('aria-label') ?? node.textContent.trim().slice(0, 20));
      }));
    }
    for (const name of ['Edit', 'Regenerate', 'Branch', 'Copy', 'Settings', 'New conversation', 'Conversations', 'Cache']) {
      assert.ok(reached.has(name), `${name} is not reached by Tab: ${[...reached]}`);
    }
    assert.deepEqual([...reached].filter(name => name.startsWith('without')), []);
    await page.locator('.report summary').focus();
    await page.keyboard.press('Enter');
    await page.locator('.report[open]').waitFor();
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      const faint = await page.evaluate(() => {
        const rgb = text => text.match(/[\d.]+/g).map(Number);
        const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
          .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const ground = node => {
          for (; node; node = node.parentElement) {
            const colour = rgb(getComputedStyle(node).backgroundColor);
            if (colour.length < 4 || colour[3] > 0) return colour;
          }
          return [255, 255, 255];
        };
        return [...document.querySelectorAll('body *')].filter(node => [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim()) &&
          node.checkVisibility() && !node.disabled).map(node => {
          const [a, b] = [light(rgb(getComputedStyle(node).color)), light(ground(node))];
          return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), node.textContent.trim().slice(0, 30)];
        }).filter(([ratio]) => ratio < 4.5);
      });
      assert.deepEqual(faint, [], colorScheme);
    }
    await close();
  },
};

const browser = await launch();
let failed = 0;
try {
  for (const [name, test] of Object.entries({ ...tests, ...stagedTests, ...viewTests })) {
    if (process.argv.length > 2 && !process.argv.slice(2).some(words => name.includes(words))) continue;
    const begin = performance.now();
    try {
      await test(browser);
      console.log(`ok      ${name} (${((performance.now() - begin) / 1000).toFixed(1)} s)`);
    } catch (error) {
      ++failed;
      console.log(`FAILED  ${name}\n${error.stack}`);
    }
  }
} finally {
  await browser.close();
}
process.exit(failed === 0 ? 0 : 1);
