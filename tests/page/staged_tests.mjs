// The page against a server that does what the test asks for (staged.py). Each test is done by the keyboard alone, where
// nothing says otherwise.

import assert from 'node:assert/strict';
import { ask, busy, field, replies, say, settled } from './browser.mjs';
import { openStaged, post, requests, step } from './stage.mjs';

const focused = page => page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? (document.activeElement.textContent.trim() || document.activeElement.id));
/** By Tab, from where the focus is. */
async function tabTo(page, name, key = 'Tab') {
  for (let i = 0; i < 60; ++i) {
    if (await focused(page) === name) return;
    await page.keyboard.press(key);
  }
  assert.fail(`${name} is not reached by ${key}`);
}
const notice = page => page.locator('#toast-words');
const wide = { viewport: { width: 1280, height: 800 } };
const allowCopying = context => context.grantPermissions(['clipboard-read', 'clipboard-write']);

export const stagedTests = {
  async 'shows how far a prompt has come'(browser) {
    const { page, close } = await openStaged(browser);
    await say(page, 'step');
    for (const processed of [100, 400, 900]) {
      await step();
      await page.getByText(`Reading the prompt: ${processed} of 1000 tokens, 100 restored`).waitFor();
    }
    await step(5);
    await settled(page);
    assert.equal(await page.locator('.progress:visible').count(), 0);
    await close();
  },

  async 'never sends an empty reply, and joins what was asked twice'(browser) {
    const { page, close } = await openStaged(browser);
    const failed = await ask(page, 'fail');
    assert.equal(await failed.locator('.failure').innerText(), 'the device is on fire');
    assert.equal(await failed.getByRole('button', { name: 'Continue' }).count(), 0, 'there is nothing to go on from');
    await ask(page, 'again');
    const messages = (await requests()).at(-1).messages;
    assert.deepEqual(messages, [{ role: 'user', content: 'fail\n\nagain' }]);
    await close(one => one.includes('500'));
  },

  async 'a reply that a dead server cut is marked, and continued'(browser) {
    const { page, close } = await openStaged(browser);
    await ask(page, 'die');
    const reply = replies(page).last();
    assert.match(await reply.locator('.failure').innerText(), /^Cut off: /);
    assert.equal((await reply.locator('.content').innerText()).trim(), 'One two');
    assert.match(await reply.locator('.report summary').innerText(), /10 % cached/);
    await tabTo(page, 'Continue', 'Shift+Tab');
    await page.keyboard.press('Enter');
    await reply.getByText('One two and the rest.').waitFor();
    await settled(page);
    const body = (await requests()).at(-1);
    assert.equal(body.continue_final_message, true);
    assert.deepEqual(body.messages.at(-1), { role: 'assistant', content: 'One two ' });
    assert.equal(await reply.locator('.failure:visible').count(), 0, 'it is whole now');
    assert.equal(await reply.getByRole('button', { name: 'Continue' }).count(), 0);
    await close();
  },

  async 'a reply that a reload cut is marked; a stopped one has its figures'(browser) {
    const { page, close } = await openStaged(browser);
    await say(page, 'step');
    await step(5);
    await page.waitForFunction(() => document.querySelector('.message.assistant .content')?.textContent.trim() === 'One two');
    await page.reload();
    const reply = replies(page).last();
    assert.equal((await reply.locator('.content').innerText()).trim(), 'One two');
    assert.match(await reply.locator('.aside').innerText(), /^Cut off: the page was closed/);
    assert.equal(await reply.getByRole('button', { name: 'Continue' }).count(), 1);

    await post('/stage/reset');
    await say(page, 'step');
    await step(5);
    await page.waitForFunction(() => [...document.querySelectorAll('.message.assistant .content')].at(-1).textContent.trim() === 'One two');
    await page.keyboard.press('Escape');
    await settled(page);
    const stopped = replies(page).last();
    assert.equal(await stopped.locator('.aside').innerText(), 'Stopped.');
    assert.match(await stopped.locator('.report summary').innerText(), /10 % cached/);
    await stopped.locator('.report summary').click();
    assert.match(await stopped.locator('.times').innerText(), /1000 tokens in, 2 out/);
    await close();
  },

  async 'a finished turn stays as it is while others come'(browser) {
    const { page, close } = await openStaged(browser, wide);
    const first = await ask(page, 'the first');
    const turn = page.locator('.message').nth(1);
    await first.locator('.report summary').focus();
    await page.keyboard.press('Enter');
    await turn.locator('.report[open]').waitFor();
    const before = await turn.ariaSnapshot();
    await turn.evaluate(node => {
      window.changes = 0;
      window.kept = node;
      new MutationObserver(all => { window.changes += all.length; }).observe(node, { childList: true, subtree: true, characterData: true, attributes: true });
    });
    await field(page).focus();
    await page.keyboard.type('step');
    await page.keyboard.press('Enter');
    await busy(page).waitFor();
    await tabTo(page, 'Branch', 'Shift+Tab');  // of the first reply or the second question: it stays focused
    await page.evaluate(() => { window.focusedBefore = document.activeElement; });
    await step(9);
    await settled(page);
    assert.equal(await page.evaluate(() => document.activeElement === window.focusedBefore), true, 'the focus stays');
    assert.equal(await turn.ariaSnapshot(), before, 'the accessibility tree of the finished turn');
    assert.equal(await page.evaluate(() => window.kept.isConnected && window.kept.querySelector('.report').open), true);
    assert.equal(await page.evaluate(() => window.changes), 0, 'nothing of it is drawn again');
    const whole = await replies(page).last().locator('.content').ariaSnapshot();
    await page.reload();
    assert.equal(await replies(page).last().locator('.content').ariaSnapshot(), whole, 'as it is drawn at once');
    await close();
  },

  async 'focus goes to the field when what had it is gone'(browser) {
    const { page, close } = await openStaged(browser);
    await say(page, 'step');
    await step(4);
    await tabTo(page, 'Stop');
    await page.keyboard.press('Enter');
    await settled(page);
    assert.equal(await page.evaluate(() => document.activeElement.id), 'composer-text');
    await close();
  },

  async 'deletes with undo, renames, and keeps drafts'(browser) {
    const { page, close } = await openStaged(browser, wide);
    await ask(page, 'about foxes');
    await ask(page, 'and hares');
    await field(page).fill('half a thou');
    await page.reload();
    assert.equal(await field(page).inputValue(), 'half a thou', 'a draft survives a reload');
    await field(page).fill('');

    const titles = () => page.locator('.conversations .open').allInnerTexts();
    await tabTo(page, 'Edit', 'Shift+Tab');
    await tabTo(page, 'Conversation', 'Shift+Tab');
    await tabTo(page, 'Edit');
    await page.keyboard.press('Enter');
    await page.getByRole('textbox', { name: 'Edit the message' }).fill('about badgers');
    await page.keyboard.press('Enter');
    await settled(page);
    await page.locator('.conversations .open', { hasText: 'about badgers' }).waitFor();
    assert.deepEqual(await titles(), ['about badgers'], 'the title follows the edit');

    await page.getByRole('button', { name: 'Rename: about badgers' }).focus();
    await page.keyboard.press('Enter');
    await page.keyboard.type('Animals');
    await page.keyboard.press('Enter');
    assert.deepEqual(await titles(), ['Animals']);
    assert.equal(await focused(page), 'Rename: Animals');
    await page.keyboard.press('Tab');
    assert.equal(await focused(page), 'Delete: Animals');
    await page.keyboard.press('Enter');
    assert.deepEqual(await titles(), []);
    assert.equal(await page.locator('#status').textContent(), 'Deleted: Animals');
    assert.equal(await focused(page), 'Undo');
    await page.keyboard.press('Enter');
    assert.deepEqual(await titles(), ['Animals']);
    assert.equal(await page.locator('.message.user').innerText().then(text => text.includes('about badgers')), true);
    await page.reload();
    assert.deepEqual(await titles(), ['Animals']);
    await close();
  },

  async 'a conversation that is deleted while its reply grows stays deleted'(browser) {
    const { page, close } = await openStaged(browser, wide);
    await say(page, 'step');
    await step(4);
    await busy(page).waitFor();
    await page.getByRole('button', { name: 'Delete: step' }).click();
    await page.getByRole('button', { name: 'Close the note' }).click();
    await page.reload();
    assert.equal(await page.locator('.conversations .open').count(), 0);
    await close();
  },

  async 'says that it has copied'(browser) {
    const { page, close } = await openStaged(browser, { prepare: allowCopying });
    await ask(page, 'say: words\n\n```\nconst a = 1;\n```');
    const spoken = () => page.evaluate(() => document.querySelector('[role=status]').textContent.trim());
    await replies(page).last().getByRole('group', { name: 'Of this message' }).getByRole('button', { name: 'Copy' }).focus();
    await page.keyboard.press('Enter');
    await notice(page).getByText('Copied.').waitFor();
    assert.equal(await spoken(), 'Copied.');
    await page.keyboard.press('Escape');
    await replies(page).last().locator('.code button').focus();
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => !document.getElementById('toast').hidden);
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'const a = 1;');
    await close();
  },

  async 'says what the built-in model is'(browser) {
    const { page, close } = await openStaged(browser, { prepare: allowCopying });
    assert.equal(await page.locator('#model-notice').isVisible(), false);
    await post('/stage/set', { models: [{ id: 'builtin', state: 'ready', max_model_len: 4096 }] });
    await page.reload();
    await page.locator('#model-notice').getByText('5 million parameters and knows nothing').waitFor();
    await page.getByRole('button', { name: 'Copy the command' }).focus();
    await page.keyboard.press('Enter');
    await notice(page).getByText('Copied.').waitFor();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^reprise serve --model hf:/);
    await page.getByRole('button', { name: 'Close the note on the model' }).focus();
    await page.keyboard.press('Enter');
    await page.locator('#model-notice').waitFor({ state: 'hidden' });
    await close();
  },

  async 'offers to load a model that was unloaded'(browser) {
    const { page, close } = await openStaged(browser);
    await page.locator('#model option', { hasText: 'staged' }).waitFor({ state: 'attached' });
    await post('/stage/set', { models: [], cache: { scope: 'all', models: [{ model: 'staged', state: 'unloaded', cached: false }], tiers: [] } });
    const refused = await ask(page, 'Hello');
    assert.match(await refused.locator('.failure').innerText(), /no model is loaded/);
    await page.locator('#model option', { hasText: 'staged (unloaded)' }).waitFor({ state: 'attached' });
    await page.getByText('The model staged is unloaded.').waitFor();
    await page.getByRole('button', { name: 'Load', exact: true }).focus();
    await page.keyboard.press('Enter');
    await page.locator('#model-notice').waitFor({ state: 'hidden' });
    assert.deepEqual(await page.locator('#model option').allInnerTexts(), ['staged']);
    const reply = await ask(page, 'Hello');
    assert.match(await reply.locator('.content').innerText(), /You said: Hello/);
    await close(one => one.includes('404'));
  },
};
