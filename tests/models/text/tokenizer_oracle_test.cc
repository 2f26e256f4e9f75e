// Ids from other programs: Hugging Face tokenizers for the files in tests/data, llama.cpp for files that are
// not in the repository.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "models/text/text_stream.h"
#include "models/text/tokenizer_load.h"
#include "tests/models/text/tokenizer_helpers.h"

namespace reprise::models {
namespace {

std::vector<TokenId> ids_of(const JsonLocation& array) {
  std::vector<TokenId> ids;
  for (const std::int64_t id : array.integers()) ids.push_back(static_cast<TokenId>(id));
  return ids;
}

void check_cases(const std::filesystem::path& folder) {
  const Tokenizer tokenizer = load_tokenizer(folder);
  const JsonLocation cases = JsonLocation::read(folder / "cases.json").at("cases");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const JsonLocation item = cases.at(i);
    const std::string text = item.at("text").text();
    const std::vector<TokenId> ids = ids_of(item.at("ids"));
    EXPECT_EQ(tokenizer.encode(text), ids) << text;
    EXPECT_EQ(tokenizer.decode(ids), item.at("decoded").text());
  }
}

TEST(TokenizerOracle, HuggingFaceByteLevelBpe) {
  check_cases(test::data_folder());
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(TokenizerOracle, LlamaCppVocabularies) {
  const std::filesystem::path folder = test::oracle_folder() / "vocab";
  SKIP_WITHOUT(folder);
  constexpr std::string_view kBorder = "\n__ggml_vocab_test__\n";
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    ++files;
    const Tokenizer tokenizer = load_tokenizer(entry.path());
    const std::string texts = read_file(entry.path().string() + ".inp");
    std::istringstream lines(read_file(entry.path().string() + ".out"));
    for (std::size_t at = 0; at <= texts.size();) {
      const std::size_t end = std::min(texts.find(kBorder, at), texts.size());
      std::string line;
      std::getline(lines, line);
      std::istringstream words(line);
      const std::vector<TokenId> ids{std::istream_iterator<TokenId>(words), {}};
      const std::string text = texts.substr(at, end - at);
      EXPECT_EQ(tokenizer.encode(text), ids) << entry.path() << ": " << text;
      if (tokenizer.covers_all_text()) {
        EXPECT_EQ(tokenizer.decode(ids), text) << entry.path();
      }
      at = end + kBorder.size();
    }
  }
  EXPECT_GT(files, 0u);
}

TEST(TokenizerOracle, LlamaCppStories) {
  const std::filesystem::path folder = test::oracle_folder() / "stories260K";
  SKIP_WITHOUT(folder);
  const Tokenizer tokenizer = load_tokenizer(folder / "stories260K.gguf");
  EXPECT_TRUE(tokenizer.adds_bos());
  ASSERT_TRUE(tokenizer.bos());
  const JsonLocation cases = JsonLocation::read(folder / "cases.json").at("cases");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const JsonLocation item = cases.at(i);
    std::vector<TokenId> ids = tokenizer.encode(item.at("prompt").text());
    ids.insert(ids.begin(), *tokenizer.bos());
    EXPECT_EQ(ids, ids_of(item.at("prompt_ids")));
    EXPECT_EQ(tokenizer.decode(ids, {.skip_special = true}), item.at("prompt").text());

    const std::vector<TokenId> greedy = ids_of(item.at("greedy"));
    const DecodeOptions options{.skip_special = true, .continuation = true};
    TextStream stream(tokenizer, options);
    std::string text;
    for (const TokenId id : greedy) text += stream.push(id);
    text += stream.flush();
    EXPECT_EQ(text, item.at("text").text());
    EXPECT_EQ(tokenizer.decode(greedy, options), text);
  }
}

}  // namespace
}  // namespace reprise::models
