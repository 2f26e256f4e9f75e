#include "protocol/openai/stream_reply.h"

#include "base/json_text.h"
#include "protocol/api/event_text.h"
#include "protocol/api/lossy_text.h"
#include "protocol/openai/error_body.h"

namespace reprise::protocol::openai {
namespace {

constexpr std::string_view kDone = "data: [DONE]\n\n";

std::string chunk_prefix(const ReplyHead& head, const ReplyOptions& options) {
  std::string prefix = "data: ";
  append_opening(prefix, head, options.kind == TextKind::kChat ? "chat.completion.chunk" : "text_completion");
  if (options.manners == Manners::kLlamaServer) append_fingerprint(prefix);
  prefix += ",\"choices\":[";
  return prefix;
}

/// The delta of a chat chunk.
void append_delta(std::string& out, const ReplyPiece& piece) {
  if (const auto* content = std::get_if<ReplyContent>(&piece)) {
    out += "{\"content\":";
    append_json_string(out, content->text);
    out += '}';
  } else if (const auto* reasoning = std::get_if<ReplyReasoning>(&piece)) {
    out += "{\"reasoning_content\":";
    append_json_string(out, reasoning->text);
    out += ",\"reasoning\":";  // as other clients read it
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

// The first chunk of each choice of a chat.
void StreamReply::tell_role(std::string& out) {
  if (options_.kind != TextKind::kChat || std::exchange(role_told_, true)) return;
  const bool llama = options_.manners == Manners::kLlamaServer;
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
  // Without text there is still a token to tell, to who asked for tokens.
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
    if (options_.manners == Manners::kLlamaServer)
      append_llama_account(out, event.usage, options_, prompt_text_);
    out += "}\n\n";
  }
  out += kDone;
}

void StreamReply::keep_alive(std::string& out) {
  out += kSseKeepAlive;
}

void StreamReply::failed(const ApiError& error, std::string& out) {
  append_sse_data(out, envelope(error).dump());
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
    if (options_.manners == Manners::kLlamaServer) append_llama_account(out, *usage, options_, prompt_text_);
  } else if (options_.timings_per_token && timings_.now().predicted_n > 0) {
    out += ",\"timings\":";
    append_timings(out, timings_.now());
  }
  out += "}\n\n";
}

}  // namespace reprise::protocol::openai
