#include "protocol/openai/whole_reply.h"

#include <algorithm>
#include <numeric>

#include "base/json_text.h"
#include "base/utf8.h"

namespace reprise::protocol::openai {

WholeReply::WholeReply(const ReplyOptions& options, ReplyContext context)
    : options_(options), context_(std::move(context)), choices_(options_.n * options_.prompts) {}

void WholeReply::admitted(const Admitted& event, std::int64_t now, std::string&) {
  head_ = reply_head(options_.kind, context_.id, event, now);
}

WholeReply::Choice& WholeReply::choice(std::uint32_t index) {
  REPRISE_CHECK(index < choices_.size(),
                "an engine event has the index of a choice that the request does not have");
  return choices_[index];
}

void WholeReply::started(const Started& event, std::string&) {
  if (options_.verbose && event.settled) prompt_text_ = event.settled->prompt_text;
  if (options_.return_token_ids) {
    for (std::uint32_t i = 0; i < options_.n; ++i) {
      choice(event.prompt_index * options_.n + i).prompt = event.prompt;
    }
  }
  if (options_.echo) {
    const std::string text = as_utf8(echo_of(options_, event));
    for (std::uint32_t i = 0; i < options_.n; ++i) choice(event.prompt_index * options_.n + i).text = text;
  }
  if (options_.kind != TextKind::kChat) return;
  for (std::uint32_t i = 0; i < choices_.size(); ++i) {
    choices_[i].parser.emplace(context_.parser_of(i, event));
  }
}

void WholeReply::delta(Delta event, std::string&) {
  Choice& now = choice(event.choice);
  const auto tokens = static_cast<std::uint32_t>(event.tokens.size());
  for (const ReplyToken& token : event.tokens) now.logprob += token.logprob.value_or(0);
  now.length += event.tokens.size();
  if (options_.logprobs || options_.return_token_ids) {
    for (ReplyToken& token : event.tokens) now.tokens.push_back(std::move(token));
  }
  if (now.parser) {
    const bool before = now.parser->in_reasoning();
    now.message.add(now.parser->push(event.text));
    if (before || now.parser->in_reasoning()) reasoning_tokens_ += tokens;
  } else {
    now.text += event.text;
  }
}

void WholeReply::finished(const Finished& event, std::string&) {
  Choice& now = choice(event.choice);
  now.finish = event.reason;
  if (now.parser) now.message.add(now.parser->finish());
}

void WholeReply::done(const Done& event, std::string& out) {
  constexpr std::size_t kUsualBytes = 1024;  // of a short answer
  out.reserve(kUsualBytes);
  append_opening(out, head_, options_.kind == TextKind::kChat ? "chat.completion" : "text_completion");
  if (options_.manners == Manners::kLlamaServer) append_fingerprint(out);
  out += ",\"choices\":[";
  std::uint32_t shown = 0;
  for (const std::uint32_t i : order_shown()) {
    if (shown > 0) out += ',';
    append_choice(i, shown++, out);
  }
  out += ']';
  if (options_.kind == TextKind::kChat) append_prompt_ids(out, choices_.front().prompt);
  out += ",\"usage\":";
  append_usage(out, event.usage, reasoning_tokens_);
  out += ",\"reprise\":";
  append_reprise(out, event.usage);
  if (options_.manners == Manners::kLlamaServer)
    append_llama_account(out, event.usage, options_, prompt_text_);
  out += '}';
}

// All of them, or of each prompt the likeliest, by the mean of their tokens' logprobs.
std::vector<std::uint32_t> WholeReply::order_shown() const {
  std::vector<std::uint32_t> order(choices_.size());
  std::iota(order.begin(), order.end(), 0U);
  if (options_.shown == 0) return order;
  const auto mean = [&](std::uint32_t i) {
    return choices_[i].length == 0 ? 0 : choices_[i].logprob / static_cast<double>(choices_[i].length);
  };
  std::vector<std::uint32_t> shown;
  for (std::uint32_t first = 0; first < order.size(); first += options_.n) {
    const auto begin = order.begin() + first;
    std::stable_sort(begin, begin + options_.n,
                     [&](std::uint32_t a, std::uint32_t b) { return mean(a) > mean(b); });
    shown.insert(shown.end(), begin, begin + options_.shown);
  }
  return shown;
}

void WholeReply::append_choice(std::uint32_t which, std::uint32_t index, std::string& out) const {
  const Choice& now = choices_[which];
  std::string_view reason = name_of(now.finish);
  out += "{\"index\":";
  append_integer(out, index);
  if (options_.kind == TextKind::kChat) {
    if (now.message.has_calls() && now.finish == FinishReason::kStop) reason = "tool_calls";
    Json message = now.message.message();
    if (!now.message.reasoning().empty())
      message["reasoning"] = now.message.reasoning();  // as other clients read it
    message["refusal"] = nullptr;
    out += ",\"message\":";
    message.dump_to(out);
  } else {
    out += ",\"text\":";
    append_json_string(out, now.text);
  }
  out += ",\"logprobs\":";
  std::uint64_t offset = 0;
  if (!options_.logprobs) {
    out += "null";
  } else if (options_.kind == TextKind::kChat) {
    append_chat_logprobs(out, now.tokens);
  } else {
    append_completion_logprobs(out, now.tokens, offset);
  }
  out += ",\"finish_reason\":\"";
  out += reason;
  out += '"';
  if (options_.return_token_ids) {
    out += ",\"token_ids\":";
    append_token_ids(out, now.tokens);
    if (options_.kind == TextKind::kCompletion) append_prompt_ids(out, now.prompt);
  }
  out += '}';
}

}  // namespace reprise::protocol::openai
