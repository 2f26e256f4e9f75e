#pragma once
// A small vocabulary, and what a constraint lets through.

#include <cctype>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocol/grammar/compile.h"
#include "protocol/grammar/mask_maker.h"
#include "protocol/grammar/vocabulary.h"

namespace reprise::protocol::grammar {

inline constexpr TokenId kStop = 0;

/// A stop token, a special one, every byte, and pieces as tokenizers have them, some of half characters.
inline std::shared_ptr<const Vocabulary> small_vocabulary() {
  static const auto vocabulary = [] {
    std::vector<Vocabulary::Token> tokens = {{"<stop>", true}, {"<call>", true}};
    for (int byte = 0; byte < 256; ++byte) tokens.push_back({std::string(1, static_cast<char>(byte)), false});
    for (const char* piece :
         {"{\"",      "\":",   "\": ",  "\",",  "\", \"", "\"}",   "},",   "},{", "[[",   "]]",
          "]}",       "  ",    "\n ",   "\n  ", "true",   "false", "null", "nul", "name", "na",
          "me",       "ab",    "abc",   "bc",   "ein",    " the",  "the ", "é",   "\xC3", "日本",
          "\xE6\x97", "\xA5",  "😀",     "\\n",  "\\u",    "\\u00", "\\\"", "12",  "123",  "-1",
          "0.",       ".5",    "e+",    "a\"",  "x\":",   "1,",    "1]",   "1}",  "\"a",  "\"b",
          "type",     "value", "https", "2024", "-0",     "T1",    ":0",   "id",  "tags"}) {
      tokens.push_back({piece, false});
    }
    for (const std::size_t many : {30, 158, 159, 160, 200}) tokens.push_back({std::string(many, 'a'), false});
    const std::size_t size = tokens.size() + 3;  // logits without tokens, as padded vocabularies have
    return std::make_shared<const Vocabulary>(std::move(tokens), std::vector<TokenId>{kStop}, size);
  }();
  return vocabulary;
}

inline Constraint schema_of(const std::string& text) {
  auto parsed = Json::parse(text);
  return {.kind = Constraint::Kind::kJsonSchema, .json = std::move(*parsed)};
}

/// Whether the bytes are let through to the end. Masks and matcher must agree on the way.
inline bool lets_through(const Constraint& constraint, const std::string& text) {
  auto program = compile(constraint);
  if (!program.ok()) throw std::runtime_error(program.error());
  ReplyConstraint reply(std::make_shared<MaskMaker>(*program, small_vocabulary()));
  for (const char byte : text) {
    const auto token = static_cast<TokenId>(2 + static_cast<unsigned char>(byte));
    const bool allowed = reply.mask()->allows(token);
    if (reply.accept(token) != allowed) throw std::logic_error("mask and matcher differ at " + text);
    if (!allowed) return false;
  }
  const SharedMask last = reply.mask();
  if (last->allows(kStop) != reply.may_end()) throw std::logic_error("the stop token is not the end");
  return reply.may_end();
}

/// The error of a constraint that cannot be kept; empty: it can.
inline std::string refusal(const Constraint& constraint, const Limits& limits = {}) {
  const auto program = compile(constraint, limits);
  return program.ok() ? "" : program.error();
}

/// A token that brings a reply in JSON closer to its end, if one is allowed. `name`: of a member that may be needed.
inline std::optional<TokenId> homeward(const Vocabulary& vocabulary, const std::vector<TokenId>& allowed,
                                       const std::string& text, const std::string& name) {
  std::size_t opened = std::string::npos;  // the quote of a string that goes on
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      opened = opened == std::string::npos ? i : std::string::npos;
    }
  }
  std::vector<std::string> closers = {"<stop>", "}", "]"};
  if (opened != std::string::npos) {
    const std::string begun = text.substr(opened + 1);
    closers.clear();
    if (name.starts_with(begun) && name != begun) closers.push_back(name.substr(begun.size(), 1));
    closers.push_back("\"");
  } else if (!text.empty() && std::isdigit(static_cast<unsigned char>(text.back())) != 0) {
    closers.push_back(",");  // else any digit: a multiple comes by chance
  } else {
    for (const char* more : {"1", "0", "\""}) closers.push_back(more);
  }
  for (const std::string& closer : closers) {
    for (const TokenId id : allowed) {
      if (static_cast<std::size_t>(id) < vocabulary.token_count() && vocabulary.token(id).bytes == closer)
        return id;
    }
  }
  return std::nullopt;
}

/// A reply of tokens drawn at random among those allowed, that comes to its end.
inline std::string random_reply(const std::shared_ptr<MaskMaker>& maker, std::mt19937_64& random,
                                const std::vector<std::string>& names = {""}, std::size_t wander = 60) {
  ReplyConstraint reply(maker);
  const Vocabulary& vocabulary = maker->vocabulary();
  std::string text;
  std::string name;  // of the member that it might go home by
  for (std::size_t step = 0; step < 5000; ++step) {
    const SharedMask mask = reply.mask();
    if (mask->ends) return text;
    std::vector<TokenId> allowed;
    for (std::size_t id = 0; id < vocabulary.size(); ++id) {
      if (mask->allows(static_cast<TokenId>(id))) allowed.push_back(static_cast<TokenId>(id));
    }
    if (allowed.size() != mask->count) throw std::logic_error("a mask that counts wrongly");
    if (allowed.empty()) throw std::logic_error("a dead end behind " + text);
    TokenId chosen = allowed[random() % allowed.size()];
    if (text.empty() || text.back() == '"') name = names[random() % names.size()];
    if (step > wander) chosen = homeward(vocabulary, allowed, text, name).value_or(chosen);
    if (chosen == kStop) return text;
    if (!reply.accept(chosen)) throw std::logic_error("an allowed token is refused behind " + text);
    text += vocabulary.token(chosen).bytes;
  }
  throw std::logic_error("no end: " + text.substr(0, 200));
}

}  // namespace reprise::protocol::grammar
