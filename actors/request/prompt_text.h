#pragma once
// From what a client sent to tokens, and the parameters that its request really means.
//
// Threading: pure functions over an immutable model.

#include <exception>
#include <memory>
#include <span>
#include <string>

#include "actors/served/served_model.h"
#include "protocol/chat/chat_format.h"
#include "protocol/service.h"

namespace reprise::actors {

struct PreparedPrompt {
  SharedTokens tokens;
  std::string tail;              // the last bytes of its text
  std::uint32_t max_tokens = 0;  // that may be decoded
  SamplingParams sampling;
  std::vector<TokenId> stop_tokens;
  std::vector<PlacedBreakpoint> breakpoints;
  std::vector<protocol::RecognizedTurn> turns;  // of the chat, that were looked for as they were sampled
  std::uint32_t recognized_calls = 0;           // of these, that the prompt has
  std::optional<std::size_t> turn_begin;        // the first token of the turn that the reply belongs to
  std::shared_ptr<protocol::grammar::MaskMaker> masks;  // null: every token may be chosen
  std::optional<std::uint32_t> reasoning_budget{};   // tokens; none: unlimited, or the model does not reason
  std::shared_ptr<const protocol::Settled> settled;  // where it is wanted
};

/// Renders, tokenises, and checks all that can be checked without the device. `wanted`: whether the client still waits;
/// compiling a grammar stops soon after it does not.
Outcome<PreparedPrompt, protocol::ServiceError> prepare_prompt(const protocol::GenerateRequest& request,
                                                               const ServedModel& model,
                                                               protocol::grammar::IsWanted wanted = {});

/// The text of the twelve tokens before the position and of the twelve behind it, special ones as they are written.
protocol::TextAround text_around(std::span<const TokenId> tokens, std::size_t position,
                                 const models::Tokenizer& tokenizer);

/// Bytes of text that have to be worked through for it, about; none for token ids.
std::size_t text_bytes(const protocol::Prompt& prompt);

/// What to tell a client whose text, or whose chat's template, made the tokenizer or the renderer throw.
protocol::ServiceError text_error(const std::exception& error, const std::string& field);

/// The tokens of a text as the model wants it at the beginning: special tokens in it are recognised, and a
/// BOS is added where the model was made with one and the text does not begin with it.
TokenList encode_prompt(const models::Tokenizer& tokenizer, const std::string& text);

}  // namespace reprise::actors
