#include "protocol/anthropic/message_whole.h"

#include "base/json_text.h"
#include "protocol/anthropic/message_text.h"
#include "protocol/openai/reply_text.h"

namespace reprise::protocol::anthropic {
namespace {

/// The arguments as a value; what is no object, as of a call that was cut short, is told as it stands.
Json input_of(const std::string& arguments) {
  if (arguments.empty()) return Json::object();
  auto parsed = Json::parse(arguments);
  if (parsed.ok() && parsed->is_object()) return std::move(*parsed);
  return Json{{"INVALID_JSON", arguments}};
}

template <class Piece>
bool join(ReplyPieces& blocks, const ReplyPiece& piece) {
  const auto* more = std::get_if<Piece>(&piece);
  auto* last = blocks.empty() ? nullptr : std::get_if<Piece>(&blocks.back());
  if (more == nullptr || last == nullptr) return false;
  last->text += more->text;
  return true;
}

Json block_of(const ReplyPiece& piece, const std::vector<std::string>& arguments,
              const std::string& reply_id) {
  if (const auto* content = std::get_if<ReplyContent>(&piece)) {
    return Json{{"type", "text"}, {"text", content->text}};
  }
  if (const auto* reasoning = std::get_if<ReplyReasoning>(&piece)) {
    return Json{{"type", "thinking"}, {"thinking", reasoning->text}, {"signature", signature_of(reply_id)}};
  }
  const auto& call = std::get<ToolCallBegin>(piece);
  return Json{
      {"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", input_of(arguments[call.index])}};
}

}  // namespace

void MessageWhole::admitted(const Admitted& event, std::int64_t, std::string&) {
  model_ = event.model;
}

void MessageWhole::started(const Started& event, std::string&) {
  parser_.emplace(context_.parser_of(0, event));
}

void MessageWhole::delta(Delta event, std::string&) {
  add(parser_->push(event.text));
}

void MessageWhole::finished(const Finished& event, std::string&) {
  add(parser_->finish());
  finished_ = event;
}

void MessageWhole::add(const ReplyPieces& pieces) {
  for (const ReplyPiece& piece : pieces) {
    if (const auto* more = std::get_if<ToolCallArguments>(&piece)) {
      arguments_[more->index] += more->json;
    } else if (!std::holds_alternative<ToolCallEnd>(piece) && !join<ReplyContent>(blocks_, piece) &&
               !join<ReplyReasoning>(blocks_, piece)) {
      if (std::holds_alternative<ToolCallBegin>(piece)) arguments_.emplace_back();
      blocks_.push_back(piece);
    }
  }
}

void MessageWhole::done(const Done& event, std::string& out) {
  Json content = Json::array();
  for (const ReplyPiece& piece : blocks_) content.push_back(block_of(piece, arguments_, context_.id));
  append_opening(out, context_.id, model_);
  out += ",\"content\":";
  content.dump_to(out);
  append_stop(out, finished_, !arguments_.empty());
  out += ",\"usage\":";
  append_usage(out, event.usage.cache, event.usage.prompt_tokens, event.usage.completion_tokens);
  out += ",\"reprise\":";
  openai::append_reprise(out, event.usage);
  out += '}';
}

}  // namespace reprise::protocol::anthropic
