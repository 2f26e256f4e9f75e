#pragma once
// Converts a request to tokens and effective parameters. All functions are pure, over an immutable model.

#include <exception>
#include <memory>
#include <span>
#include <string>

#include "actors/models/served_model.h"
#include "protocol/chat/chat_format.h"
#include "protocol/grammar/mask_maker.h"
#include "protocol/service.h"

namespace reprise::actors {

struct PreparedPrompt {
  SharedTokens tokens;
  std::string tail;  // last bytes of the text
  std::uint32_t max_tokens = 0;
  SamplingParams sampling;
  std::vector<TokenId> stop_tokens;
  std::vector<BreakpointPosition> breakpoints;
  std::vector<protocol::RecognizedTurn> turns;          // turns of the chat found as sampled
  std::uint32_t recognized_calls = 0;                   // tool calls in these turns
  std::optional<std::size_t> turn_begin;                // first token of the turn that the reply belongs to
  std::shared_ptr<protocol::grammar::MaskMaker> masks;  // null: every token may be chosen
  std::optional<std::uint32_t> reasoning_budget{};   // tokens; none: unlimited, or the model does not reason
  std::shared_ptr<const protocol::Settled> settled;  // null: not requested
};

/// Renders and tokenizes the prompt, and checks all that does not need the device. `wanted` returns whether
/// the client still waits; compiling a grammar stops soon after it returns false.
Outcome<PreparedPrompt, protocol::Error> prepare_prompt(const protocol::GenerateRequest& request,
                                                        const ServedModel& model,
                                                        protocol::grammar::IsWanted wanted = {});

/// Returns the text of the twelve tokens before `position` and of the twelve after it, with special tokens as
/// text.
protocol::TextAround text_around(std::span<const TokenId> tokens, std::size_t position,
                                 const models::Tokenizer& tokenizer);

/// Returns the approximate number of bytes of text to process; 0 for token ids.
std::size_t text_bytes(const protocol::Prompt& prompt);

/// Returns the error for a client whose text or chat template made the tokenizer or the renderer throw.
protocol::Error text_error(const std::exception& error, const std::string& field);

/// Tokenizes text at the beginning of a prompt: special tokens are recognized, and a BOS is added if the
/// model needs one and the text does not begin with it.
TokenList encode_prompt(const models::Tokenizer& tokenizer, const std::string& text);

}  // namespace reprise::actors
