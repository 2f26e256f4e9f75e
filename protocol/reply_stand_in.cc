// Stands in for the reply parser: everything is content.
#include "protocol/reply_message.h"
#include "protocol/reply_parser.h"

namespace reprise::protocol {
ReplyFormat detect_reply_format(std::string_view) { return {}; }
bool opens_thinking(const ReplyFormat&, std::string_view) { return false; }
std::optional<std::string> tool_opening(const ReplyFormat&, std::string_view, std::string_view) { return {}; }
class ReplyParser::Machine {};
ReplyParser::ReplyParser(ReplyFormat, ReplyParserOptions) {}
ReplyParser::~ReplyParser() = default;
ReplyParser::ReplyParser(ReplyParser&&) noexcept = default;
ReplyParser& ReplyParser::operator=(ReplyParser&&) noexcept = default;
ReplyPieces ReplyParser::push(std::string_view text) {
  if (text.empty()) return {};
  return {ReplyContent{std::string(text)}};
}
ReplyPieces ReplyParser::finish() { return {}; }
std::uint32_t ReplyParser::calls() const { return 0; }
void MessageBuilder::add(const ReplyPiece& piece) {
  if (const auto* c = std::get_if<ReplyContent>(&piece)) content_ += c->text;
}
void MessageBuilder::add(const ReplyPieces& pieces) {
  for (const auto& p : pieces) add(p);
}
Json MessageBuilder::message() const { return Json{{"role", "assistant"}, {"content", content_}}; }
}  // namespace reprise::protocol
