#pragma once
// ChatFormat: all that is known of how a model chats, found once from its chat template when the model is
// loaded: how a conversation becomes a prompt, where messages begin in it, how replies mark reasoning and
// tool calls, how a call is forced, where later system messages can be shown, and how the next turn will show a reply.
//
// No template is known by name: marks are found in its text (protocol/reply/reply_format.h), places of
// messages by rendering small conversations (protocol/chat/prompt_shape.h).
//
// Threading: immutable and shared; any thread. Time and memory of rendering are bounded
// (protocol/jinja/error.h).

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/outcome.h"
#include "base/token.h"
#include "protocol/chat/prompt_shape.h"
#include "protocol/chat/system_place.h"
#include "protocol/jinja/template.h"
#include "protocol/reply/reply_format.h"
#include "protocol/reply/reply_parser.h"
#include "protocol/sampled_turns.h"
#include "protocol/service.h"

namespace reprise::protocol {

/// A turn that came back with the meaning that it was sampled with.
struct RecognizedTurn {
  std::size_t message = 0;  // its index
  SharedTurn turn{};
};
/// Null: it is not known.
using FindTurn = std::function<SharedTurn(const std::string& name)>;
/// In the order of the messages.
std::vector<RecognizedTurn> recognize_turns(const Json& messages, const FindTurn& find);

/// A chat as a prompt. Its tokens are those of the text but for recognized turns, which have the tokens that were sampled.
struct ShownChat {
  std::string text{};
  TokenList tokens{};
  std::uint32_t recognized_calls = 0;
};

class ChatFormat {
 public:
  /// The model's tokenizer, as far as chats need it. The functions are called from any thread; without them
  /// nothing is known of places in a prompt.
  struct Tokens {
    std::string bos{};  // as text; empty: there is none
    std::string eos{};
    std::function<TokenList(const std::string& text)> encode{};  // recognizes special tokens
    std::function<TokenList(const std::string& text)>
        encode_rest{};  // the same, of a text that is not a prompt's first
    std::function<bool(TokenId id)> is_special{};
    std::function<std::size_t(TokenId id)> bytes{};  // that it stands for in a text; may be missing
  };

  /// An error names what is wrong with the template.
  /// `thinking`: of chats that do not say it themselves (enable_thinking); none: as the template has it. Where a chat or
  /// this says false, what the template opens all the same is closed at once.
  static Outcome<std::shared_ptr<const ChatFormat>, std::string> make(
      std::string source, Tokens tokens, std::optional<bool> thinking = {},
      SystemInPlace system = SystemInPlace::kAuto);

  /// Whether the request, or else the server's setting, asks for reasoning: enable_thinking, or a reasoning_effort that is
  /// not "none".
  bool asks_for_reasoning(const ChatPrompt& chat) const;

  /// The template as it came with the model.
  const std::string& source() const { return source_; }

  /// The prompt's text, with the reply's opening behind it. Content that is an array of text parts becomes
  /// one text, and arguments of tool calls objects: what templates expect. System messages keep their positions
  /// (protocol/chat/system_place.h).
  Outcome<std::string, ServiceError> render(const ChatPrompt& chat) const;

  /// The prompt with its tokens; the tokenizer must have been given. Turns that the template does not show in their place are
  /// rendered from their messages.
  Outcome<ShownChat, ServiceError> show(const ChatPrompt& chat, std::vector<RecognizedTurn> turns) const;
  /// The tokens of a text with which a prompt begins.
  TokenList encode(const std::string& text) const { return tokens_.encode(text); }
  /// The index of the token with which the turn begins that a reply to this prompt belongs to: the first of the template's
  /// header. Nothing where that cannot be told.
  std::optional<std::size_t> turn_begin(const std::string& prompt, std::span<const TokenId> tokens) const;
  /// As text; empty where the model has none.
  const std::string& bos() const { return tokens_.bos; }
  const std::string& eos() const { return tokens_.eos; }

  /// Where messages begin in a rendered prompt.
  MessageBorders borders(std::span<const TokenId> prompt) const { return find_borders(shape_, prompt); }
  const PromptShape& shape() const { return shape_; }
  /// For each of these places of the chat, the end of the last token of its prompt at or before it; 0 where there is
  /// none, and for places within recognized turns. `prompt` is what show() gave.
  std::vector<std::uint32_t> breakpoints(const ChatPrompt& chat, const std::vector<RecognizedTurn>& turns,
                                         std::span<const ChatBreakpoint> places,
                                         const ShownChat& prompt) const;

  const ReplyFormat& reply_format() const { return reply_; }
  /// The token that opens a tool call; nothing where it takes several, or text may have it as well.
  std::optional<TokenId> call_opener() const { return call_opener_; }
  ReplyParser parser(ReplyParserOptions options) const { return ReplyParser(reply_, std::move(options)); }
  /// What to put behind a prompt with this end so that the reply can only be a call: of the named tool, or of
  /// any where the name is empty. Nothing where the format has no calls, or the name cannot be written in it.
  std::optional<std::string> call_opening(std::string_view tool_name, std::string_view prompt_tail) const {
    return tool_opening(reply_, tool_name, prompt_tail);
  }

  /// A whole reply as the message that a client keeps of it. Ids of its calls are made from the seed.
  Json message_of(const ChatPrompt& chat, std::string_view reply, const std::string& prompt_tail,
                  const std::string& id_seed) const;
  /// What comes before the next message, a tool's result where the reply has calls and else the user's, if the conversation
  /// goes on from this reply, up to the last stable cut; empty where that cannot be told. `reply_turn`: the reply as it was
  /// sampled; null: it is rendered.
  TokenList history_after(const ChatPrompt& chat, const Json& reply_message,
                          std::vector<RecognizedTurn> turns = {}, SharedTurn reply_turn = nullptr) const;

 private:
  ChatFormat(std::string source, jinja::Template compiled, Tokens tokens, std::optional<bool> thinking,
             SystemInPlace system);
  /// The template's variables, with these messages.
  Json context_of(const ChatPrompt& chat, Json messages) const;
  SystemPlaces learn_places(SystemInPlace system) const;
  std::string learn_header() const;
  bool learn_shows_calls() const;
  std::optional<TokenId> learn_call_opener() const;
  /// A text, or a turn without its first `from` bytes.
  struct ShownPart {
    std::string text{};
    SharedTurn turn{};
    std::size_t from = 0;
  };
  Outcome<std::vector<ShownPart>, ServiceError> parts_of(const ChatPrompt& chat,
                                                         std::vector<RecognizedTurn> turns) const;
  /// Where the turn ends whose last words end at `behind`; npos: that cannot be told.
  std::size_t end_of_turn(const std::string& text, std::size_t behind, const SampledTurn& turn) const;
  /// `text` has the turns' marks; turns that are found in it are noted in `is_shown`.
  std::vector<ShownPart> cut_at_turns(const std::string& text, std::span<const RecognizedTurn> turns,
                                      std::vector<bool>& is_shown) const;
  /// The text of the parts.
  std::optional<std::string> text_of(const ChatPrompt& chat, const std::vector<RecognizedTurn>& turns) const;
  ReplyFormat learn_reply_format() const;

  const std::string source_;
  const jinja::Template template_;
  const Tokens tokens_;
  const std::optional<bool> thinking_;
  const ReplyFormat reply_;
  const SystemPlaces system_;
  const PromptShape shape_;
  const std::string header_;  // that the template writes before an assistant's turn; empty: not known
  const bool shows_calls_;    // of the history
  const std::optional<TokenId> call_opener_;
};

/// The last places between two blocks of what waits for an answer, which are the messages behind the assistant's last one:
/// within a message, and between results of tools. A few, from the end: that is where requests differ. Between other messages
/// the prompt has marks of its own (borders()).
std::vector<ChatBreakpoint> last_blocks(const ChatPrompt& chat);

using ChatFormatPtr = std::shared_ptr<const ChatFormat>;

}  // namespace reprise::protocol
