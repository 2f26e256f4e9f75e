#include "actors/request/infill_tokens.h"

#include <array>
#include <string_view>

namespace reprise::actors {
namespace {

struct GapMarks {
  std::string_view prefix, suffix, middle;
};
constexpr std::array kGapMarks = {
    GapMarks{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    GapMarks{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
    GapMarks{"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
    GapMarks{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
    GapMarks{"▁<PRE>", "▁<SUF>", "▁<MID>"},
    GapMarks{"<PRE>", "<SUF>", "<MID>"},
    GapMarks{"[PREFIX]", "[SUFFIX]", "[MIDDLE]"},
    GapMarks{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
};
constexpr std::array<std::string_view, 3> kFileMarks = {"<|file_sep|>", "<file_sep>", "<|file_separator|>"};

struct Marks {
  TokenId prefix, suffix, middle;
};

std::optional<Marks> marks_of(const models::Tokenizer& tokenizer) {
  for (const GapMarks& known : kGapMarks) {
    const auto prefix = tokenizer.find(known.prefix);
    const auto suffix = tokenizer.find(known.suffix);
    const auto middle = tokenizer.find(known.middle);
    if (prefix && suffix && middle) return Marks{*prefix, *suffix, *middle};
  }
  return std::nullopt;
}

std::optional<TokenId> file_mark_of(const models::Tokenizer& tokenizer) {
  for (const std::string_view known : kFileMarks) {
    if (const auto mark = tokenizer.find(known)) return mark;
  }
  return std::nullopt;
}

}  // namespace

std::optional<TokenList> infill_tokens(const protocol::InfillPrompt& prompt,
                                       const models::Tokenizer& tokenizer) {
  const std::optional<Marks> marks = marks_of(tokenizer);
  if (!marks) return std::nullopt;
  TokenList tokens;
  const auto add_text = [&](const std::string& text) {
    const TokenList more = tokenizer.encode(text, {.parse_special = false});
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  if (tokenizer.adds_bos() && tokenizer.bos()) tokens.push_back(*tokenizer.bos());
  const std::optional<TokenId> file_mark = file_mark_of(tokenizer);
  for (const protocol::InfillPrompt::File& file : prompt.files) {
    if (file_mark) tokens.push_back(*file_mark);
    add_text(file.name + "\n" + file.text + (file_mark ? "" : "\n"));
  }
  if (file_mark && !prompt.files.empty()) tokens.push_back(*file_mark);
  tokens.push_back(marks->prefix);
  add_text(prompt.prefix);
  tokens.push_back(marks->suffix);
  add_text(prompt.suffix);
  tokens.push_back(marks->middle);
  if (!prompt.opening.empty()) add_text(prompt.opening);
  return tokens;
}

}  // namespace reprise::actors
