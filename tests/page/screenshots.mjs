// The pictures of docs/page:  node screenshots.mjs FOLDER

import { ask, launch, open, REAL, replies, settled } from './browser.mjs';

const folder = process.argv[2];
const kTurns = ['Hello, I am Ada and I live in Ljubljana.', 'My cat is called Miso.', 'My shopping list is: milk, bread and figs.',
  'Add tea to my shopping list.', 'Where do I live?'];

const browser = await launch();
const view = (page, name) => page.getByRole('button', { name, exact: true }).click();
const talk = async (page, turns) => {
  for (const words of turns) await ask(page, words);
};
/** A look at the cache, so that there is something to draw. */
const look = async page => {
  const answered = page.waitForResponse(response => response.url().endsWith('/v1/cache'));
  await view(page, 'Cache');
  await answered;
  await view(page, 'Chat');
};
const take = (page, name) => page.screenshot({ path: `${folder}/${name}.png` });

const greedy = context => context.addInitScript(() => {
  localStorage.setItem('reprise.settings', JSON.stringify({ temperature: '0' }));
  sessionStorage.setItem('reprise.builtin-hidden', 'yes');  // as with a model of one's own
});
{
  const { page, close } = await open(browser, REAL, { viewport: { width: 1120, height: 760 }, prepare: greedy });
  for (const words of kTurns) {
    await ask(page, words);
    await look(page);
  }
  await replies(page).last().locator('.report summary').click();
  await page.locator('#messages').evaluate(node => { node.scrollTop = node.scrollHeight; });
  await take(page, 'light');
  await page.emulateMedia({ colorScheme: 'dark' });
  for (const words of ['What is my cat called?', 'What is 17 + 25?', 'What is on my shopping list?']) {
    await page.locator('.message.user').nth(2).getByRole('button', { name: 'Edit' }).click();
    await page.getByRole('textbox', { name: 'Edit the message' }).fill(words);
    await page.getByRole('textbox', { name: 'Edit the message' }).press('Enter');
    await page.locator('.message.user', { hasText: words }).waitFor();
    await settled(page);
    await look(page);
  }
  await view(page, 'Cache');
  await page.locator('.tree > li').nth(3).waitFor();
  await take(page, 'dark');
  await close();
}
{
  const { page, close } = await open(browser, REAL, { viewport: { width: 360, height: 740 }, deviceScaleFactor: 1.5, prepare: greedy });
  await talk(page, kTurns.slice(0, 3));
  await replies(page).last().locator('.report summary').click();
  await page.locator('#messages').evaluate(node => { node.scrollTop = node.scrollHeight; });
  await take(page, 'phone');
  await close();
}
await browser.close();
