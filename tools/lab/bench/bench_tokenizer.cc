// Speed of a tokenizer in MB/s, on ordinary text and on text constructed to be slow.
//
//   bench_tokenizer --model PATH [--text FILE] [--seconds S]
//
// For the hostile texts prints the time of 1 MB and of 4 MB; a ratio near 4 means that time is linear in the
// length.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "models/text/text_stream.h"
#include "models/text/tokenizer_load.h"

namespace {

using reprise::TokenId;
using reprise::models::TextStream;
using reprise::models::Tokenizer;
using Clock = std::chrono::steady_clock;

constexpr double kMega = 1e6;
constexpr std::size_t kHostileBytes = 1'000'000;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Returns the best time of the runs that fit in `seconds`, at least four.
template <typename Function>
double best_time(double seconds, Function function) {
  double best = 1e9;
  const auto start = Clock::now();
  for (int run = 0; run < 4 || seconds_since(start) < seconds; ++run) {
    const auto begin = Clock::now();
    function();
    best = std::min(best, seconds_since(begin));
  }
  return best;
}

std::string repeat(const std::string& unit, std::size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += unit;
  return out;
}

std::vector<std::pair<std::string, std::string>> hostile_units() {
  return {{"one letter", "a"},      {"one capital", "A"},      {"spaces", " "},
          {"newlines", "\n"},       {"space, newline", " \n"}, {"quotes", "'"},
          {"digits", "7"},          {"punctuation", "!"},      {"emoji", "\U0001F600"},
          {"CJK", "\u4E2D\u6587"},  {"Thai", "\u0E01\u0E02"},  {"marks", "\u0301\u0316"},
          {"special starts", "<|"}, {"bad bytes", "\xFF\xC0"}, {"letters, marks", "e\u0301"}};
}

void bench_text(const Tokenizer& tokenizer, const std::string& name, const std::string& text,
                double seconds) {
  std::vector<TokenId> ids;
  const double encode = best_time(seconds, [&] { ids = tokenizer.encode(text); });
  std::string decoded;
  const double decode = best_time(seconds / 4, [&] { decoded = tokenizer.decode(ids); });
  const double stream = best_time(seconds / 4, [&] {
    TextStream out(tokenizer);
    decoded.clear();
    for (const TokenId id : ids) decoded += out.push(id);
    decoded += out.flush();
  });
  std::printf("%-24s %8.2f MB %9zu tokens  encode %7.2f MB/s  decode %7.2f MB/s  stream %7.2f MB/s\n",
              name.c_str(), text.size() / kMega, ids.size(), text.size() / kMega / encode,
              text.size() / kMega / decode, text.size() / kMega / stream);
}

void bench_hostile(const Tokenizer& tokenizer, const std::string& name, const std::string& unit) {
  const auto time = [&](std::size_t bytes) {
    const std::string text = repeat(unit, bytes);
    return best_time(0, [&] { tokenizer.encode(text); });
  };
  const double one = time(kHostileBytes);
  const double four = time(4 * kHostileBytes);
  std::printf("%-24s 1 MB %8.1f ms   4 MB %8.1f ms   ratio %5.2f\n", name.c_str(), one * 1e3, four * 1e3,
              four / one);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Speed of a tokenizer"};
  std::filesystem::path model;
  std::vector<std::filesystem::path> files;
  double seconds = 1.0;
  app.add_option("--model", model, "A Hugging Face folder or a GGUF file")->required();
  app.add_option("--text", files, "Files to encode");
  app.add_option("--seconds", seconds, "Time for each text")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    const auto start = Clock::now();
    const Tokenizer tokenizer = reprise::models::load_tokenizer(model);
    std::printf("%-24s %.0f ms, %zu tokens\n", "load", seconds_since(start) * 1e3, tokenizer.vocab_size());
    for (const auto& file : files) {
      std::ifstream in(file, std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      bench_text(tokenizer, file.filename().string(), text, seconds);
    }
    for (const auto& [name, unit] : hostile_units()) bench_hostile(tokenizer, name, unit);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_tokenizer: %s\n", error.what());
    return 1;
  }
  return 0;
}
