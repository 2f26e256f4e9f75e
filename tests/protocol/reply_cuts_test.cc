// Invariants of parsing any text, however it is split.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "protocol/reply/reply_message.h"
#include "protocol/reply/reply_parser.h"
#include "tests/protocol/reply_samples.h"
#include "tests/sanitized.h"

namespace reprise::protocol::test {
namespace {

// Begin, arguments, end; ascending indices; no empty pieces.
void expect_well_formed(const ReplyPieces& pieces, std::string_view text) {
  std::uint32_t begun = 0;
  bool open = false;
  for (const ReplyPiece& piece : pieces) {
    if (const auto* begin = std::get_if<ToolCallBegin>(&piece)) {
      ASSERT_FALSE(open) << text;
      ASSERT_EQ(begin->index, begun++) << text;
      ASSERT_FALSE(begin->name.empty()) << text;
      open = true;
    } else if (const auto* arguments = std::get_if<ToolCallArguments>(&piece)) {
      ASSERT_TRUE(open && arguments->index + 1 == begun && !arguments->json.empty()) << text;
    } else if (const auto* end = std::get_if<ToolCallEnd>(&piece)) {
      ASSERT_TRUE(open && end->index + 1 == begun) << text;
      open = false;
    } else if (const auto* content = std::get_if<ReplyContent>(&piece)) {
      ASSERT_FALSE(open || content->text.empty()) << text;
    } else {
      ASSERT_FALSE(open || std::get<ReplyReasoning>(piece).text.empty()) << text;
    }
  }
  ASSERT_FALSE(open) << text;
}

TEST(ReplyCuts, AnyTwoCutsGiveTheSame) {
  for (const Sample& sample : samples()) {
    const ReplyFormat format = detect_reply_format(sample.source);
    const ReplyParserOptions options = sample_options(sample.tail);
    const ReplyPieces whole = parsed(format, options, sample.reply);
    expect_well_formed(whole, sample.reply);
    const ReplyPieces expected = joined(whole);
    const std::size_t step = sample.reply.size() < 120 && !kSanitized ? 1 : 7;
    for (std::size_t a = 0; a <= sample.reply.size(); ++a) {
      for (std::size_t b = a; b <= sample.reply.size(); b += step) {
        const ReplyPieces pieces = parsed(format, options, sample.reply, {a, b});
        ASSERT_TRUE(joined(pieces) == expected) << "cut at " << a << " and " << b << ":\n"
                                                << shown(pieces) << "instead of\n"
                                                << shown(expected);
      }
    }
  }
}

TEST(ReplyCuts, ByteByByteGivesTheSame) {
  for (const Sample& sample : samples()) {
    const ReplyFormat format = detect_reply_format(sample.source);
    std::vector<std::size_t> cuts;
    for (std::size_t at = 1; at < sample.reply.size(); ++at) cuts.push_back(at);
    const ReplyPieces pieces = parsed(format, sample_options(sample.tail), sample.reply, cuts);
    expect_well_formed(pieces, sample.reply);
    EXPECT_EQ(shown(pieces), sample.pieces);
  }
}

// Every prefix of a sample is a reply truncated by the token limit.
TEST(ReplyCuts, EveryStartOfASampleIsAReply) {
  for (const Sample& sample : samples()) {
    const ReplyFormat format = detect_reply_format(sample.source);
    for (std::size_t size = 0; size < sample.reply.size(); ++size) {
      const std::string_view text = sample.reply.substr(0, size);
      expect_well_formed(parsed(format, sample_options(sample.tail), text), text);
    }
  }
}

std::string without(std::string text, std::string_view characters) {
  std::erase_if(text, [characters](char c) { return characters.find(c) != std::string_view::npos; });
  return text;
}

// Random texts: combined parts, or a sample with parts removed, doubled or inserted.
class RandomReplies {
 public:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  std::string from_parts(const ReplyFormat& format) {
    std::string text;
    for (std::size_t count = 1 + below(14); count > 0; --count) text += part(format);
    return text;
  }

  std::string from_sample(const ReplyFormat& format, std::string text) {
    for (std::size_t count = 1 + below(4); count > 0; --count) {
      const std::size_t at = below(text.size() + 1);
      const std::size_t size = std::min(below(12), text.size() - at);
      const std::size_t change = below(3);
      if (change == 0) text.erase(at, size);
      if (change == 1) {
        const std::size_t from = below(text.size() + 1);
        const std::size_t length = below(40);
        text.insert(at, text.substr(from, length));
      }
      if (change == 2) text.insert(at, part(format));
    }
    return text;
  }

  std::vector<std::size_t> cuts(std::string_view text) {
    std::vector<std::size_t> cuts;
    for (std::size_t count = below(12); count > 0; --count) cuts.push_back(below(text.size() + 1));
    std::sort(cuts.begin(), cuts.end());
    return cuts;
  }

 private:
  std::string part(const ReplyFormat& format) {
    const std::vector<std::string> own = {format.call_open,  format.call_close,     format.item_open,
                                          format.item_close, format.name_separator, format.think_open,
                                          format.think_close};
    static const std::vector<std::string> others = {"{\"name\": \"now\"",
                                                    "\"arguments\": {",
                                                    "{\"name\": \"now\", \"arguments\": {",
                                                    "}",
                                                    "}}",
                                                    "\"",
                                                    ",",
                                                    "<function=now>",
                                                    "<parameter=a>",
                                                    "<parameter=city>",
                                                    "</parameter>",
                                                    "</function>",
                                                    "\n",
                                                    " ",
                                                    "é😀",
                                                    "\\",
                                                    "[",
                                                    "]",
                                                    "1",
                                                    "text",
                                                    "<",
                                                    "{",
                                                    "(",
                                                    ")",
                                                    "a=",
                                                    "'",
                                                    "now",
                                                    ":",
                                                    "null",
                                                    "True",
                                                    "now(a=",
                                                    "```json\n",
                                                    "\x80"};
    return below(3) == 0 ? own[below(own.size())] : others[below(others.size())];
  }

  std::mt19937 random_{20240607};
};

TEST(ReplyCuts, RandomTextGivesTheSameAndLosesNothing) {
  RandomReplies random;
  std::size_t with_calls = 0;
  std::size_t without_calls = 0;
  for (int round = 0; round < rounds(40'000); ++round) {
    const Sample& sample = samples()[random.below(samples().size())];
    const ReplyFormat format = detect_reply_format(sample.source);
    ReplyParserOptions options = sample_options(sample.tail);
    options.parse_reasoning = random.below(4) != 0;
    const std::string text = random.below(2) == 0 ? random.from_parts(format)
                                                  : random.from_sample(format, std::string(sample.reply));
    const ReplyPieces whole = parsed(format, options, text);
    expect_well_formed(whole, text);
    const ReplyPieces pieces = parsed(format, options, text, random.cuts(text));
    expect_well_formed(pieces, text);
    ASSERT_EQ(shown(pieces), shown(whole)) << "reply: " << text;

    const Json message = assistant_message(whole);
    if (message.find("tool_calls") != nullptr) {
      ++with_calls;
      continue;
    }
    ++without_calls;
    const std::string* reasoning = message.find_string("reasoning_content");
    const std::string all = (reasoning != nullptr ? *reasoning : "") + *message.find_string("content");
    // Only reasoning tags and white space around them may be dropped.
    const std::string dropped = options.parse_reasoning ? format.think_open + "/ \n" : "";
    ASSERT_EQ(without(all, dropped), without(text, dropped)) << "reply: " << text;
  }
  EXPECT_GT(with_calls, static_cast<std::size_t>(rounds(5'000)));
  EXPECT_GT(without_calls, static_cast<std::size_t>(rounds(5'000)));
}

// 1 MiB each, or a sixteenth under a sanitizer; superlinear time would exceed the test's limit.
TEST(ReplyCuts, HostileTextTakesLinearTime) {
  constexpr std::size_t kBytes = rounds(1 << 20);
  for (const std::string_view source : kAllFormats) {
    const ReplyFormat format = detect_reply_format(source);
    const std::string call = format.call_open.empty() ? "<" : format.call_open;
    for (const std::string& unit :
         {std::string("<"), std::string("\n"), std::string("{"), std::string("[\""), call,
          call + "{\"name\": \"", call + "{\"arguments\": \"",
          call + "\n<function=now>\n<parameter=a>\n</parameter", call.substr(0, call.size() - 1),
          format.think_open + format.think_close + " "}) {
      if (unit.empty()) continue;
      std::string text;
      while (text.size() < kBytes) text += unit;
      ReplyParser parser(format, sample_options());
      std::size_t bytes = 0;
      const auto count = [&bytes](const ReplyPieces& pieces) {
        for (const ReplyPiece& piece : pieces) {
          if (const auto* content = std::get_if<ReplyContent>(&piece)) bytes += content->text.size();
          if (const auto* arguments = std::get_if<ToolCallArguments>(&piece)) bytes += arguments->json.size();
        }
      };
      for (std::size_t at = 0; at < text.size(); at += 5)
        count(parser.push(std::string_view(text).substr(at, 5)));
      count(parser.finish());
      EXPECT_LE(bytes, 4 * text.size());
    }
  }
}

}  // namespace
}  // namespace reprise::protocol::test
