#include "protocol/api/completions_reply.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace reprise::protocol {
namespace {

constexpr double kMinLogprob = -9999.0;  // for impossible tokens; JSON has no -inf

void append_logprob(std::string& out, double value) {
  append_json_double(out, std::isfinite(value) ? value : kMinLogprob, false);
}

/// Completions identify a token only by its text, so one that is not UTF-8 is written as hex.
void append_token_name(std::string& out, std::string_view bytes) {
  if (is_utf8(bytes)) return append_json_string(out, bytes);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string name = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    name += "\\x";
    name += kHex[byte >> 4];
    name += kHex[byte & 15];
  }
  append_json_string(out, name);
}

void append_bytes(std::string& out, std::string_view bytes) {
  out += '[';
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    append_integer(out, static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

void append_chat_token(std::string& out, std::string_view bytes, double logprob) {
  out += "{\"token\":";
  append_lossy_string(out, bytes);
  out += ",\"logprob\":";
  append_logprob(out, logprob);
  out += ",\"bytes\":";
  append_bytes(out, bytes);
}

/// `id`: the request's, without OpenAI's prefix; `now`: seconds since 1970.
ReplyHead reply_head(TextKind kind, const std::string& id, const Admitted& admitted, std::int64_t now) {
  return {
      .id = (kind == TextKind::kChat ? "chatcmpl-" : "cmpl-") + id, .created = now, .model = admitted.model};
}

/// Appends {"id":…,"object":OBJECT,"created":…,"model":… without the closing brace.
void append_opening(std::string& out, const ReplyHead& head, std::string_view object) {
  out += "{\"id\":";
  append_json_string(out, head.id);
  out += ",\"object\":\"";
  out += object;
  out += "\",\"created\":";
  append_integer(out, head.created);
  out += ",\"model\":";
  append_json_string(out, head.model);
}

/// Appends {"prompt_tokens":…}, with restored tokens as prompt_tokens_details.cached_tokens, and reasoning
/// tokens.
void append_usage(std::string& out, const Usage& usage, std::uint32_t reasoning_tokens) {
  out += "{\"prompt_tokens\":";
  append_integer(out, usage.prompt_tokens);
  out += ",\"completion_tokens\":";
  append_integer(out, usage.completion_tokens);
  out += ",\"total_tokens\":";
  append_integer(out, std::int64_t{usage.prompt_tokens} + usage.completion_tokens);
  out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
  append_integer(out, usage.cache.restored_tokens);
  out += "},\"completion_tokens_details\":{\"reasoning_tokens\":";
  append_integer(out, reasoning_tokens);
  out += "}}";
}

std::string echo_of(const ReplyOptions& options, const Started& started) {
  const std::string& sent = options.prompt_texts.at(started.prompt_index);
  return sent.empty() && started.settled ? started.settled->prompt_text : sent;
}

/// Appends ,"system_fingerprint":… in llama-server's form: a letter and a version.
void append_fingerprint(std::string& out) {
  out += ",\"system_fingerprint\":\"b-reprise-0.1.0\"";
}

/// Appends llama-server's ,"timings":{…} and, if requested, ,"__verbose":{"prompt":…}.
void append_llama_account(std::string& out, const Usage& usage, const ReplyOptions& options,
                          const std::string& prompt_text) {
  out += ",\"timings\":";
  append_timings(out, timings_of(usage));
  if (!options.verbose) return;
  out += ",\"__verbose\":{\"prompt\":";
  append_lossy_string(out, prompt_text);
  out += '}';
}

void append_token_ids(std::string& out, const std::vector<ReplyToken>& tokens) {
  append_list(out, tokens, [&](const ReplyToken& token) { append_integer(out, token.id); });
}

/// Appends e.g. ,"prompt_token_ids":[1,2,3]; nothing if `prompt` is null.
void append_prompt_ids(std::string& out, const SharedTokens& prompt) {
  if (prompt == nullptr) return;
  out += ",\"prompt_token_ids\":";
  append_list(out, *prompt, [&](TokenId id) { append_integer(out, id); });
}

constexpr std::string_view kDone = "data: [DONE]\n\n";

std::string chunk_prefix(const ReplyHead& head, const ReplyOptions& options) {
  std::string prefix = "data: ";
  append_opening(prefix, head, options.kind == TextKind::kChat ? "chat.completion.chunk" : "text_completion");
  if (options.flavor == ApiFlavor::kLlamaServer) append_fingerprint(prefix);
  prefix += ",\"choices\":[";
  return prefix;
}

void append_delta(std::string& out, const ReplyPiece& piece) {
  if (const auto* content = std::get_if<ReplyContent>(&piece)) {
    out += "{\"content\":";
    append_json_string(out, content->text);
    out += '}';
  } else if (const auto* reasoning = std::get_if<ReplyReasoning>(&piece)) {
    out += "{\"reasoning_content\":";
    append_json_string(out, reasoning->text);
    out += ",\"reasoning\":";  // for clients that read this name
    append_json_string(out, reasoning->text);
    out += '}';
  } else if (const auto* begin = std::get_if<ToolCallBegin>(&piece)) {
    out += "{\"tool_calls\":[{\"index\":";
    append_integer(out, begin->index);
    out += ",\"id\":";
    append_json_string(out, begin->id);
    out += ",\"type\":\"function\",\"function\":{\"name\":";
    append_json_string(out, begin->name);
    out += ",\"arguments\":\"\"}}]}";
  } else if (const auto* arguments = std::get_if<ToolCallArguments>(&piece)) {
    out += "{\"tool_calls\":[{\"index\":";
    append_integer(out, arguments->index);
    out += ",\"function\":{\"arguments\":";
    append_json_string(out, arguments->json);
    out += "}}]}";
  }
}

}  // namespace

void append_chat_logprobs(std::string& out, const std::vector<ReplyToken>& tokens) {
  out += "{\"content\":";
  append_list(out, tokens, [&](const ReplyToken& token) {
    append_chat_token(out, token.bytes, token.logprob.value_or(kMinLogprob));
    out += ",\"top_logprobs\":";
    append_list(out, token.top, [&](const ReplyToken::Alternative& other) {
      append_chat_token(out, other.bytes, other.logprob);
      out += '}';
    });
    out += '}';
  });
  out += ",\"refusal\":null}";
}

void append_completion_logprobs(std::string& out, const std::vector<ReplyToken>& tokens,
                                std::uint64_t& offset) {
  out += "{\"tokens\":";
  append_list(out, tokens, [&](const ReplyToken& token) { append_token_name(out, token.bytes); });
  out += ",\"token_logprobs\":";
  append_list(out, tokens,
              [&](const ReplyToken& token) { append_logprob(out, token.logprob.value_or(kMinLogprob)); });
  out += ",\"top_logprobs\":";
  append_list(out, tokens, [&](const ReplyToken& token) {
    out += '{';
    bool first = true;
    for (const ReplyToken::Alternative& other : token.top) {
      if (!std::exchange(first, false)) out += ',';
      append_token_name(out, other.bytes);
      out += ':';
      append_logprob(out, other.logprob);
    }
    out += '}';
  });
  out += ",\"text_offset\":";
  append_list(out, tokens, [&](const ReplyToken& token) {
    append_integer(out, static_cast<std::int64_t>(offset));
    for (const char c : token.bytes) offset += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  });
  out += '}';
}

// -- as a stream

StreamReply::StreamReply(const ReplyOptions& options, ReplyContext context)
    : options_(options),
      context_(std::move(context)),
      choices_(options_.n * options_.prompts),
      unfinished_(options_.n * options_.prompts) {}

std::string_view StreamReply::content_type() const {
  return kSseContentType;
}

void StreamReply::admitted(const Admitted& event, std::int64_t now, std::string&) {
  prefix_ = chunk_prefix(reply_head(options_.kind, context_.id, event, now), options_);
}

StreamReply::Choice& StreamReply::choice(std::uint32_t index) {
  REPRISE_CHECK(index < choices_.size(),
                "an engine event has the index of a choice that the request does not have");
  return choices_[index];
}

void StreamReply::progress(const Progress& event, std::string& out) {
  tell_role(out);
  out += prefix_;
  out += "],\"prompt_progress\":{\"total\":";
  append_integer(out, event.total);
  out += ",\"cache\":";
  append_integer(out, event.restored);
  out += ",\"processed\":";
  append_integer(out, event.processed);
  out += ",\"time_ms\":";
  append_integer(out, static_cast<std::int64_t>(event.ms));
  out += "}}\n\n";
}

// Writes the first chunk of each choice of a chat.
void StreamReply::tell_role(std::string& out) {
  if (options_.kind != TextKind::kChat || std::exchange(role_told_, true)) return;
  const bool llama = options_.flavor == ApiFlavor::kLlamaServer;
  for (std::uint32_t i = 0; i < choices_.size(); ++i) {
    open_chunk(i, out);
    out += llama ? "{\"role\":\"assistant\",\"content\":null}" : "{\"role\":\"assistant\",\"content\":\"\"}";
    close_chunk(i, {}, nullptr, out);
  }
}

void StreamReply::started(const Started& event, std::string& out) {
  timings_.started(event);
  if (options_.verbose && event.settled) prompt_text_ = event.settled->prompt_text;
  if (options_.return_token_ids) {
    const std::uint32_t tellers = options_.kind == TextKind::kChat ? 1 : options_.n;
    for (std::uint32_t i = 0; i < tellers; ++i) {
      choice(event.prompt_index * options_.n + i).prompt = event.prompt;
    }
  }
  if (options_.echo) {
    for (std::uint32_t i = 0; i < options_.n; ++i) {
      const std::uint32_t index = event.prompt_index * options_.n + i;
      open_chunk(index, out);
      append_lossy_string(out, echo_of(options_, event));
      close_chunk(index, {}, nullptr, out);
    }
  }
  if (options_.kind != TextKind::kChat) return;
  for (std::uint32_t i = 0; i < choices_.size(); ++i)
    choices_[i].parser.emplace(context_.parser_of(i, event));
  tell_role(out);
}

void StreamReply::delta(Delta event, std::string& out) {
  Choice& now = choice(event.choice);
  timings_.add(event.tokens.size());
  const auto tokens = static_cast<std::uint32_t>(event.tokens.size());
  if (options_.logprobs || options_.return_token_ids) {
    for (ReplyToken& token : event.tokens) now.tokens.push_back(std::move(token));
  }
  if (now.parser) {
    const bool before = now.parser->in_reasoning();
    const ReplyPieces pieces = now.parser->push(event.text);
    if (before || now.parser->in_reasoning()) reasoning_tokens_ += tokens;
    return write_pieces(event.choice, pieces, out);
  }
  // Without text a chunk is written only if token ids were requested.
  if (event.text.empty() && !(options_.return_token_ids && !now.tokens.empty())) return;
  open_chunk(event.choice, out);
  append_json_string(out, event.text);
  close_chunk(event.choice, {}, nullptr, out);
}

void StreamReply::finished(const Finished& event, std::string& out) {
  Choice& now = choice(event.choice);
  if (now.finish) return;
  if (now.parser) write_pieces(event.choice, now.parser->finish(), out);
  now.finish = event.reason;
  if (--unfinished_ == 0) {
    held_finish_ = event.choice;
  } else {
    write_finish(event.choice, nullptr, out);
  }
}

void StreamReply::done(const Done& event, std::string& out) {
  if (held_finish_) write_finish(*held_finish_, options_.include_usage ? nullptr : &event.usage, out);
  if (options_.include_usage) {
    out += prefix_;
    out += "],\"usage\":";
    append_usage(out, event.usage, reasoning_tokens_);
    out += ",\"reprise\":";
    append_reprise(out, event.usage);
    if (options_.flavor == ApiFlavor::kLlamaServer)
      append_llama_account(out, event.usage, options_, prompt_text_);
    out += "}\n\n";
  }
  out += kDone;
}

void StreamReply::keep_alive(std::string& out) {
  out += kSseKeepAlive;
}

void StreamReply::failed(const Error& error, std::string& out) {
  append_sse_data(out, error_envelope(error).dump());
  out += kDone;
}

void StreamReply::write_pieces(std::uint32_t index, const ReplyPieces& pieces, std::string& out) {
  for (const ReplyPiece& piece : pieces) {
    if (std::holds_alternative<ToolCallEnd>(piece)) continue;
    open_chunk(index, out);
    append_delta(out, piece);
    close_chunk(index, {}, nullptr, out);
  }
}

void StreamReply::write_finish(std::uint32_t index, const Usage* usage, std::string& out) {
  const Choice& now = choices_[index];
  std::string_view reason = name_of(*now.finish);
  if (now.parser && now.parser->calls() > 0 && *now.finish == FinishReason::kStop) reason = "tool_calls";
  open_chunk(index, out);
  out += options_.kind == TextKind::kChat ? "{}" : "\"\"";
  close_chunk(index, reason, usage, out);
}

void StreamReply::open_chunk(std::uint32_t index, std::string& out) {
  out += prefix_;
  out += "{\"index\":";
  append_integer(out, index);
  out += options_.kind == TextKind::kChat ? ",\"delta\":" : ",\"text\":";
}

void StreamReply::close_chunk(std::uint32_t index, std::string_view finish_reason, const Usage* usage,
                              std::string& out) {
  Choice& now = choices_[index];
  out += ",\"logprobs\":";
  if (!options_.logprobs || now.tokens.empty()) {
    out += "null";
  } else if (options_.kind == TextKind::kChat) {
    append_chat_logprobs(out, now.tokens);
  } else {
    append_completion_logprobs(out, now.tokens, now.text_offset);
  }
  out += ",\"finish_reason\":";
  if (finish_reason.empty()) {
    out += "null";
  } else {
    append_json_string(out, finish_reason);
  }
  if (options_.return_token_ids) {
    out += ",\"token_ids\":";
    append_token_ids(out, now.tokens);
  }
  now.tokens.clear();
  const bool chat = options_.kind == TextKind::kChat;
  if (!chat) append_prompt_ids(out, now.prompt);
  out += "}]";
  if (chat) append_prompt_ids(out, now.prompt);
  now.prompt.reset();
  if (options_.include_usage) out += ",\"usage\":null";
  if (usage != nullptr) {
    out += ",\"reprise\":";
    append_reprise(out, *usage);
    if (options_.flavor == ApiFlavor::kLlamaServer) append_llama_account(out, *usage, options_, prompt_text_);
  } else if (options_.timings_per_token && timings_.now().predicted_n > 0) {
    out += ",\"timings\":";
    append_timings(out, timings_.now());
  }
  out += "}\n\n";
}

// -- whole

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
  constexpr std::size_t kUsualBytes = 1024;
  out.reserve(kUsualBytes);
  append_opening(out, head_, options_.kind == TextKind::kChat ? "chat.completion" : "text_completion");
  if (options_.flavor == ApiFlavor::kLlamaServer) append_fingerprint(out);
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
  if (options_.flavor == ApiFlavor::kLlamaServer)
    append_llama_account(out, event.usage, options_, prompt_text_);
  out += '}';
}

// Returns all choices, or for each prompt the likeliest ones by the mean logprob of their tokens.
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
      message["reasoning"] = now.message.reasoning();  // for clients that read this name
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

// -- the call

namespace {

class TextCall final : public GenerationCall {
 public:
  TextCall(TextRequest request, SlotNote note)
      : GenerationCall(std::move(request.asked)),
        options_(std::move(request.reply)),
        note_(std::move(note)) {}

  std::unique_ptr<StreamedReply> stream(ReplyContext context) override {
    return noted_stream(std::make_unique<StreamReply>(options_, std::move(context)), std::move(note_));
  }
  std::unique_ptr<Reply> whole(ReplyContext context) override {
    return noted_whole(std::make_unique<WholeReply>(options_, std::move(context)), std::move(note_));
  }

 private:
  const ReplyOptions options_;
  SlotNote note_;
};

}  // namespace

std::unique_ptr<GenerationCall> text_call(TextRequest request, SlotNote note) {
  return std::make_unique<TextCall>(std::move(request), std::move(note));
}

}  // namespace reprise::protocol
