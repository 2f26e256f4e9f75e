#pragma once
// ChatFormat: how a model chats, derived from its chat template when the model is loaded: rendering of
// conversations, message boundaries, marks of reasoning and tool calls, forced calls, system messages in the
// middle, and how the next prompt will show a reply.
//
// No template is known by name: marks are found in its source (protocol/reply/reply_format.h), message
// boundaries by rendering small conversations (protocol/chat/prompt_shape.h).
//
// Threading: immutable and shared. Time and memory of rendering are bounded (protocol/jinja/error.h).

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/outcome.h"
#include "base/token.h"
#include "protocol/chat/prompt_shape.h"
#include "protocol/chat/system_messages.h"
#include "protocol/jinja/template.h"
#include "protocol/reply/reply_format.h"
#include "protocol/reply/reply_parser.h"
#include "protocol/sampled_turns.h"
#include "protocol/service.h"

namespace reprise::protocol {

/// A message that a client sent back with the same meaning as the turn that was sampled.
struct RecognizedTurn {
  std::size_t message = 0;  // index of the message
  SharedTurn turn{};
};
/// Looks up a turn by name; null: unknown.
using FindTurn = std::function<SharedTurn(const std::string& name)>;
/// Returns the recognized turns in the order of the messages.
std::vector<RecognizedTurn> recognize_turns(const Json& messages, const FindTurn& find);

/// A chat as a prompt. Recognized turns have their sampled tokens, all else the tokens of the text.
struct ShownChat {
  std::string text{};
  TokenList tokens{};
  std::uint32_t recognized_calls = 0;
};

class ChatFormat {
 public:
  /// The tokenizer functions that chats need; called from any thread. Without them positions in the prompt
  /// are unknown.
  struct Tokens {
    std::string bos{};  // text; empty: none
    std::string eos{};
    std::function<TokenList(const std::string& text)> encode{};  // parses special tokens
    // same, for text that does not begin the prompt
    std::function<TokenList(const std::string& text)> encode_rest{};
    std::function<bool(TokenId id)> is_special{};
    std::function<std::size_t(TokenId id)> bytes{};  // length of the token in the text; may be unset
  };

  /// Compiles a template; an error says what is wrong with it. `thinking` is the default for chats without
  /// enable_thinking; none: the template's default. If thinking is off and the template opens a thinking
  /// block, the block is closed at once.
  static Outcome<std::shared_ptr<const ChatFormat>, std::string> make(
      std::string source, Tokens tokens, std::optional<bool> thinking = {},
      SystemMessageMode system = SystemMessageMode::kAuto);

  /// Returns whether the request, or else the server's setting, enables reasoning: enable_thinking, or a
  /// reasoning_effort other than "none".
  bool asks_for_reasoning(const ChatPrompt& chat) const;

  const std::string& source() const { return source_; }

  /// Returns the prompt's text, with the reply's opening appended. Content arrays of text parts are joined,
  /// and arguments of tool calls become objects, as templates expect. System messages keep their positions
  /// (protocol/chat/system_messages.h).
  Outcome<std::string, Error> render(const ChatPrompt& chat) const;

  /// Returns the prompt with its tokens. Turns that the template does not show at their position are rendered
  /// from their messages. Requires: a tokenizer.
  Outcome<ShownChat, Error> show(const ChatPrompt& chat, std::vector<RecognizedTurn> turns) const;
  TokenList encode(const std::string& text) const { return tokens_.encode(text); }
  /// Returns the index of the first token of the template's header of the turn that a reply to this prompt
  /// belongs to; nothing if unknown.
  std::optional<std::size_t> turn_begin(const std::string& prompt, std::span<const TokenId> tokens) const;
  /// Returns the text of the BOS token; empty: none.
  const std::string& bos() const { return tokens_.bos; }
  const std::string& eos() const { return tokens_.eos; }

  MessageBorders borders(std::span<const TokenId> prompt) const { return find_borders(shape_, prompt); }
  const PromptShape& shape() const { return shape_; }
  /// Returns, for each position in the chat, the number of prompt tokens that end at or before it; 0:
  /// unknown, or within a recognized turn. `prompt` is the result of show().
  std::vector<std::uint32_t> breakpoints(const ChatPrompt& chat, const std::vector<RecognizedTurn>& turns,
                                         std::span<const ChatBreakpoint> positions,
                                         const ShownChat& prompt) const;

  const ReplyFormat& reply_format() const { return reply_; }
  /// Returns the token that begins a tool call; nothing if there are several, or if it may also occur in
  /// text.
  std::optional<TokenId> call_opener() const { return call_opener_; }
  ReplyParser parser(ReplyParserOptions options) const { return ReplyParser(reply_, std::move(options)); }
  /// Returns tool_opening() for this format.
  std::optional<std::string> call_opening(std::string_view tool_name, std::string_view prompt_tail) const {
    return tool_opening(reply_, tool_name, prompt_tail);
  }

  /// Returns a complete reply as the message that a client stores. `id_seed` determines the ids of its calls.
  Json message_of(const ChatPrompt& chat, std::string_view reply, const std::string& prompt_tail,
                  const std::string& id_seed) const;
  /// Returns the tokens that the next prompt will have before its next message (a tool result if the reply
  /// has calls, else the user's), up to the last stable cut; empty if unknown. `reply_turn`: the reply as
  /// sampled; null: it is rendered.
  TokenList history_after(const ChatPrompt& chat, const Json& reply_message,
                          std::vector<RecognizedTurn> turns = {}, SharedTurn reply_turn = nullptr) const;

 private:
  ChatFormat(std::string source, jinja::Template compiled, Tokens tokens, std::optional<bool> thinking,
             SystemMessageMode system);
  Json context_of(const ChatPrompt& chat, Json messages) const;
  SystemMessageSupport learn_system_support(SystemMessageMode system) const;
  std::string learn_header() const;
  bool learn_shows_calls() const;
  std::optional<TokenId> learn_call_opener() const;
  /// A text, or a turn without its first `from` bytes.
  struct ShownPart {
    std::string text{};
    SharedTurn turn{};
    std::size_t from = 0;
  };
  Outcome<std::vector<ShownPart>, Error> parts_of(const ChatPrompt& chat,
                                                  std::vector<RecognizedTurn> turns) const;
  /// Returns the end of the turn whose content ends at `content_end`; npos: unknown.
  std::size_t end_of_turn(const std::string& text, std::size_t content_end, const SampledTurn& turn) const;
  /// Splits the text at the marks of turns. Sets is_shown for the turns found.
  std::vector<ShownPart> cut_at_turns(const std::string& text, std::span<const RecognizedTurn> turns,
                                      std::vector<bool>& is_shown) const;
  std::optional<std::string> text_of(const ChatPrompt& chat, const std::vector<RecognizedTurn>& turns) const;
  ReplyFormat learn_reply_format() const;

  const std::string source_;
  const jinja::Template template_;
  const Tokens tokens_;
  const std::optional<bool> thinking_;
  const ReplyFormat reply_;
  const SystemMessageSupport system_;
  const PromptShape shape_;
  const std::string header_;  // text before an assistant turn; empty: unknown
  const bool shows_calls_;    // the template shows calls of the history
  const std::optional<TokenId> call_opener_;
};

/// Returns the last block boundaries in the messages after the assistant's last one: within a message, and
/// between tool results. Only a few, from the end, where requests differ. Boundaries between other messages
/// are found by borders().
std::vector<ChatBreakpoint> last_blocks(const ChatPrompt& chat);

using ChatFormatPtr = std::shared_ptr<const ChatFormat>;

}  // namespace reprise::protocol
