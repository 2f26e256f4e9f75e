// bench_grammar: tests and times structured output on schemas with examples, from MaskBench or the JSON
// Schema Test Suite. Prints how many schemas pass, are rejected, or fail, and the times of masks and
// compilation.
//
//   bench_grammar --model PATH FOLDER          files {"schema": …, "tests": [{"data": …, "valid": …}]}
//   bench_grammar --model PATH --suite FOLDER  files [{"schema": …, "tests": …}, …] of the test suite
//
// A schema passes if exactly its valid examples, as written by Python's json.dumps, are accepted.

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/json.h"
#include "models/text/tokenizer_load.h"
#include "protocol/grammar/compile.h"
#include "protocol/grammar/mask_maker.h"
#include "protocol/grammar/vocabulary.h"

namespace {

using reprise::Json;
using reprise::TokenId;
namespace grammar = reprise::protocol::grammar;

struct Tally {
  std::size_t schemas = 0, passing = 0, refused = 0, rejects_valid = 0, accepts_invalid = 0, tokens = 0;
  std::vector<double> mask_us, compile_us;
  std::map<std::string, std::size_t> reasons;
};

// CPU time of this thread, so that other load does not count.
double now_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

class Bench {
 public:
  Bench(const std::string& model, bool names_failures, double slow_us)
      : tokenizer_(reprise::models::load_tokenizer(model)),
        names_failures_(names_failures),
        slow_us_(slow_us) {
    std::vector<grammar::Vocabulary::Token> tokens;
    for (std::size_t id = 0; id < tokenizer_.vocab_size(); ++id) {
      tokens.push_back({std::string(tokenizer_.token_bytes(static_cast<TokenId>(id))),
                        tokenizer_.is_special(static_cast<TokenId>(id))});
    }
    std::vector<TokenId> stops;
    if (tokenizer_.eos()) stops.push_back(*tokenizer_.eos());
    const std::size_t size = tokens.size();
    vocabulary_ = std::make_shared<grammar::Vocabulary>(std::move(tokens), std::move(stops), size);
  }

  void run(const std::string& name, const Json& entry) {
    ++tally_.schemas;
    const double begin = now_us();
    grammar::Constraint constraint{.kind = grammar::Constraint::Kind::kJsonSchema,
                                   .json = *entry.find("schema")};
    auto program = grammar::compile(constraint);
    if (!program.ok()) {
      ++tally_.refused;
      ++tally_.reasons[program.error().substr(0, 60)];
      if (names_failures_) std::printf("refused  %s: %s\n", name.c_str(), program.error().c_str());
      tally_.compile_us.push_back(now_us() - begin);
      return;
    }
    auto maker = std::make_shared<grammar::MaskMaker>(*program, vocabulary_);
    tally_.compile_us.push_back(now_us() - begin);
    bool good = true;
    std::size_t number = 0;
    for (const Json& test : *entry.find_array("tests")) {
      const bool valid = test.find("valid")->as_bool();
      const bool accepted = accepts(name, maker, test.find("data")->dump(reprise::JsonStyle::python()));
      if (accepted != valid) {
        if (good) ++(valid ? tally_.rejects_valid : tally_.accepts_invalid);
        good = false;
        if (names_failures_)
          std::printf("%s %s #%zu\n", valid ? "rejects " : "ACCEPTS ", name.c_str(), number);
      }
      ++number;
    }
    if (good) ++tally_.passing;
  }

  void print() {
    std::printf("\n| | |\n|---|---:|\n");
    const auto row = [](const char* what, double value) { std::printf("| %s | %.0f |\n", what, value); };
    row("schemas", static_cast<double>(tally_.schemas));
    row("passing", static_cast<double>(tally_.passing));
    row("refused", static_cast<double>(tally_.refused));
    row("rejects a valid example", static_cast<double>(tally_.rejects_valid));
    row("accepts an invalid example", static_cast<double>(tally_.accepts_invalid));
    row("tokens", static_cast<double>(tally_.tokens));
    for (const double share : {0.5, 0.9, 0.95, 0.99, 0.999, 1.0}) {
      std::printf("| mask, µs, %g %% | %.1f |\n", share * 100, percentile(tally_.mask_us, share));
    }
    for (const double share : {0.5, 0.99, 1.0}) {
      std::printf("| compile, µs, %g %% | %.0f |\n", share * 100, percentile(tally_.compile_us, share));
    }
    std::vector<std::pair<std::size_t, std::string>> reasons;
    for (const auto& [reason, count] : tally_.reasons) reasons.emplace_back(count, reason);
    std::sort(reasons.rbegin(), reasons.rend());
    std::printf("\nrefused for\n");
    for (std::size_t i = 0; i < reasons.size() && i < 40; ++i) {
      std::printf("  %5zu  %s\n", reasons[i].first, reasons[i].second.c_str());
    }
  }

 private:
  bool accepts(const std::string& name, const std::shared_ptr<grammar::MaskMaker>& maker,
               const std::string& text) {
    grammar::ReplyConstraint reply(maker);
    std::string before;
    for (const TokenId token : tokenizer_.encode(text, {.parse_special = false})) {
      ++tally_.tokens;
      const double begin = now_us();
      const reprise::SharedMask mask = reply.mask();
      const bool allowed = mask->allows(token);
      const bool went_on = reply.accept(token);
      tally_.mask_us.push_back(now_us() - begin);
      if (slow_us_ > 0 && tally_.mask_us.back() > slow_us_) {
        const std::size_t shown = std::min<std::size_t>(before.size(), 40);
        std::printf("slow %.0f µs, %u tokens: %s behind %s\n", tally_.mask_us.back(), mask->count,
                    name.c_str(), before.substr(before.size() - shown).c_str());
      }
      if (slow_us_ > 0) before += tokenizer_.token_bytes(token);
      if (allowed != went_on) std::printf("MASK AND MATCHER DIFFER at token %d of %s\n", token, text.c_str());
      if (!allowed) return false;
    }
    return reply.may_end();
  }

  const reprise::models::Tokenizer tokenizer_;
  const bool names_failures_;
  const double slow_us_;
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;
  Tally tally_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("structured output against schemas with examples");
  std::string model, folder, suite;
  bool names = false;
  double slow_us = 0;
  std::size_t every = 1;
  app.add_option("--model", model, "whose vocabulary: a folder or a GGUF file")->required();
  app.add_option("--suite", suite, "a folder of the JSON Schema Test Suite");
  app.add_flag("--names", names, "name every schema that does not pass");
  app.add_option("--slow", slow_us, "name masks that take longer, in µs");
  app.add_option("--every", every, "only one file of so many")->check(CLI::PositiveNumber);
  app.add_option("folder", folder, "of MaskBench's files");
  CLI11_PARSE(app, argc, argv);
  Bench bench(model, names, slow_us);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(suite.empty() ? folder : suite)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (std::size_t i = 0; i < files.size(); i += every) {
    const auto& file = files[i];
    std::ifstream stream(file);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    const auto parsed = Json::parse(text, {}, {.python = true});
    if (!parsed.ok()) {
      std::fprintf(stderr, "%s: %s\n", file.c_str(), parsed.error().message.c_str());
      continue;
    }
    const std::string name = file.filename().string();
    if (suite.empty()) {
      bench.run(name, *parsed);
    } else {
      for (const Json& entry : parsed->as_array())
        bench.run(name + ": " + *entry.find_string("description"), entry);
    }
  }
  bench.print();
  return 0;
}
