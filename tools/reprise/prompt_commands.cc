// `reprise tokenize`, `render`, `explain`: show a prompt's tokens, its text, and where two requests' prompts
// diverge.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iosfwd>
#include <iostream>
#include <istream>
#include <iterator>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "actors/request/chat_tokens.h"
#include "actors/request/prompt_text.h"
#include "base/json.h"
#include "models/files/json_location.h"
#include "models/text/chat_template_source.h"
#include "models/text/tokenizer_load.h"
#include "protocol/apis.h"
#include "protocol/chat/named_templates.h"
#include "protocol/jinja/template.h"
#include "tools/reprise/commands.h"
#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

namespace {

// -- tokenize

std::string to_json(const std::vector<TokenId>& ids) {
  std::string out = "[";
  for (const TokenId id : ids) {
    char digits[16];
    const auto end = std::to_chars(digits, digits + sizeof digits, id).ptr;
    if (out.size() > 1) out += ',';
    out.append(digits, end);
  }
  return out += "]\n";
}

/// Reads one JSON string per line and writes its token ids as a JSON array per line; special tokens are
/// recognized, no BOS is added. Weights are not needed. Returns 1, with the reason on `log`, if the tokenizer
/// cannot be loaded or a line is not a JSON string; earlier lines have been answered.
int tokenize(const std::string& model, std::istream& in, std::ostream& out, std::ostream& log) {
  try {
    const models::Tokenizer tokenizer = models::load_tokenizer(model);
    std::string line;
    for (std::size_t number = 1; std::getline(in, line); ++number) {
      const std::string place = "line " + std::to_string(number);
      out << to_json(tokenizer.encode(models::JsonLocation::parse(line, place).text()));
      if (!out) {
        log << "reprise: cannot write the token ids of " << place << std::endl;
        return 1;
      }
    }
    out.flush();
    return out ? 0 : 1;
  } catch (const std::exception& error) {
    out.flush();
    log << "reprise: " << error.what() << std::endl;
    return 1;
  }
}

// -- render

struct RenderOptions {
  std::filesystem::path template_file;
  std::string now;  // 2026-11-14T12:00:00Z, for strftime_now; empty: the clock
};

std::chrono::system_clock::time_point parse_time(const std::string& text) {
  namespace chrono = std::chrono;
  int year = 0;
  unsigned month = 0, day = 0, hour = 0, minute = 0, second = 0;
  int taken = 0;
  const int fields = std::sscanf(text.c_str(), "%4d-%2u-%2uT%2u:%2u:%2uZ%n", &year, &month, &day, &hour,
                                 &minute, &second, &taken);
  const chrono::year_month_day date{chrono::year(year), chrono::month(month), chrono::day(day)};
  if (fields != 6 || static_cast<std::size_t>(taken) != text.size() || !date.ok() || hour > 23 ||
      minute > 59 || second > 60) {
    throw UsageError("--now takes a time like 2026-11-14T12:00:00Z, not \"" + text + "\"");
  }
  return chrono::sys_days(date) + chrono::hours(hour) + chrono::minutes(minute) + chrono::seconds(second);
}

/// Reads a JSON object with the template's variables and writes the rendered text without a newline. Returns
/// 1, with the reason on `log`, if template or JSON cannot be read or rendering fails. Throws UsageError for
/// an invalid time.
int render(const RenderOptions& options, std::istream& in, std::ostream& out, std::ostream& log) {
  protocol::jinja::RenderOptions settings;
  if (!options.now.empty()) settings.now = parse_time(options.now);
  std::ifstream file(options.template_file, std::ios::binary);
  const std::string source(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || file.bad()) {
    log << "reprise: cannot read the template " << options.template_file.string() << std::endl;
    return 1;
  }
  const auto compiled = protocol::jinja::Template::compile(source);
  if (!compiled.ok()) {
    log << "reprise: " << options.template_file.string() << ": " << compiled.error().describe() << std::endl;
    return 1;
  }
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const auto context = Json::parse(text);
  if (!context.ok()) {
    log << "reprise: standard input: " << context.error().message << std::endl;
    return 1;
  }
  const auto rendered = compiled->render(*context, settings);
  if (!rendered.ok()) {
    log << "reprise: " << options.template_file.string() << ": " << rendered.error().describe() << std::endl;
    return 1;
  }
  out << *rendered;
  out.flush();
  if (!out) log << "reprise: cannot write the rendered text" << std::endl;
  return out ? 0 : 1;
}

// -- explain

struct ExplainOptions {
  std::string model;                    // for tokenizer and chat template; weights are not read
  std::string path{};                   // API path of the requests; empty: detected from the bodies
  std::vector<std::string> requests{};  // two files with JSON bodies
};

bool is_anthropics(const Json& body) {
  if (body.find("system") != nullptr) return true;
  const Json::Array* tools = body.find_array("tools");
  for (const Json& tool : tools == nullptr ? Json::Array() : *tools) {
    if (tool.find("input_schema") != nullptr) return true;
  }
  const Json::Array* messages = body.find_array("messages");
  for (const Json& message : messages == nullptr ? Json::Array() : *messages) {
    const Json::Array* blocks = message.find_array("content");
    for (const Json& block : blocks == nullptr ? Json::Array() : *blocks) {
      const std::string* type = block.find_string("type");
      if (type != nullptr && (*type == "tool_use" || *type == "tool_result" || *type == "thinking"))
        return true;
    }
  }
  return false;
}

std::string path_for(const Json& body) {
  if (body.find("input") != nullptr) return "/v1/responses";
  if (body.find("messages") == nullptr) return "/v1/completions";
  return is_anthropics(body) ? "/v1/messages" : "/v1/chat/completions";
}

/// Returns the prompt of the request in `file`, built as a server would.
protocol::Prompt read_prompt(const protocol::ApiTable& apis, const std::string& file, std::string path) {
  std::ifstream in(file, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in.is_open() || in.bad()) throw UsageError(file + ": cannot be read");
  if (path.empty()) {
    const auto body = Json::parse(text);
    if (!body.ok()) throw UsageError(file + ": " + body.error().message);
    path = path_for(*body);
  }
  for (const protocol::ApiRoute& route : apis.routes) {
    if (route.path != path || route.method != protocol::HttpMethod::kPost) continue;
    try {
      protocol::ParsedCall parsed = route.endpoint->parse({.body = text}, {});
      if (const auto* error = std::get_if<protocol::Error>(&parsed))
        throw UsageError(file + ": " + error->message);
      if (auto* call = std::get_if<std::unique_ptr<protocol::GenerationCall>>(&parsed))
        return std::move((*call)->request.generate.prompt);
    } catch (const protocol::BadRequest& refused) {
      throw UsageError(file + ": " + refused.error().message);
    }
  }
  throw UsageError("--path: no replies are generated at '" + path + "'");
}

class Reader {
 public:
  explicit Reader(const std::string& model)
      : tokenizer_(std::make_shared<const models::Tokenizer>(models::load_tokenizer(model))) {
    std::optional<std::string> source = models::load_chat_template(model);
    const bool is_own = source && !source->empty();
    if (!is_own) source = protocol::named_template("chatml");
    auto made = protocol::ChatFormat::make(
        *source,
        actors::chat_tokens(tokenizer_, is_own ? actors::BosBy::kTemplate : actors::BosBy::kTokenizer));
    if (!made.ok()) throw UsageError("--model: " + made.error());
    chat_ = std::move(*made);
  }

  const models::Tokenizer& tokenizer() const { return *tokenizer_; }

  TokenList tokens(const protocol::Prompt& prompt, const std::string& file) const {
    if (const auto* ids = std::get_if<TokenList>(&prompt)) return *ids;
    if (const auto* text = std::get_if<std::string>(&prompt))
      return actors::encode_prompt(*tokenizer_, *text);
    const auto* chat = std::get_if<protocol::ChatPrompt>(&prompt);
    if (chat == nullptr) throw UsageError(file + ": has neither messages nor a single text prompt");
    auto shown = chat_->show(*chat, {});
    if (!shown.ok()) throw UsageError(file + ": " + shown.error().message);
    return std::move(shown->tokens);
  }

 private:
  const std::shared_ptr<const models::Tokenizer> tokenizer_;
  protocol::ChatFormatPtr chat_;
};

int explain(const ExplainOptions& options) {
  const Reader reader(options.model);
  const protocol::ApiTable apis = protocol::all_apis();
  std::vector<TokenList> prompts;
  for (const std::string& file : options.requests)
    prompts.push_back(reader.tokens(read_prompt(apis, file, options.path), file));
  const TokenList& one = prompts.at(0);
  const TokenList& other = prompts.at(1);
  const auto same = static_cast<std::size_t>(
      std::mismatch(one.begin(), one.end(), other.begin(), other.end()).first - one.begin());
  const auto left = actors::text_around(one, same, reader.tokenizer());
  const auto right = actors::text_around(other, same, reader.tokenizer());
  std::printf("%zu tokens and %zu tokens, the first %zu the same\n", one.size(), other.size(), same);
  std::printf("both:   %s\nfirst:  %s\nsecond: %s\n", Json(left.before).dump().c_str(),
              Json(left.after).dump().c_str(), Json(right.after).dump().c_str());
  return std::ferror(stdout) != 0 ? 1 : 0;
}

}  // namespace

Command add_tokenize(CLI::App& program) {
  const auto model = std::make_shared<std::string>();
  CLI::App* command = program.add_subcommand(
      "tokenize", "Read JSON strings, one per line, and write their token ids as JSON arrays");
  command->add_option("--model", *model, kModelHelp);
  return {command, [model] {
            const std::string folder = model_or_builtin(*model);
            std::ios::sync_with_stdio(false);
            return tokenize(folder, std::cin, std::cout, std::cerr);
          }};
}

Command add_render(CLI::App& program) {
  const auto options = std::make_shared<RenderOptions>();
  CLI::App* command = program.add_subcommand(
      "render", "Read a JSON context and write the prompt that a chat template makes of it");
  command->add_option("--template", options->template_file, "The chat template, a Jinja file")->required();
  command->add_option("--now", options->now, "Time that templates see, such as 2026-11-14T12:00:00Z");
  return {command, [options] { return render(*options, std::cin, std::cout, std::cerr); }};
}

Command add_explain(CLI::App& program) {
  const auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = program.add_subcommand(
      "explain", "Show where the prompts of two requests differ, in tokens and in text");
  command->add_option("requests", options->requests, "Two files with JSON bodies")->required()->expected(2);
  command->add_option("--model", options->model, kModelHelp);
  command->add_option(
      "--path", options->path,
      "Path that the requests are sent to, such as /v1/messages; default: detected from their fields");
  return {command, [options] {
            options->model = model_or_builtin(options->model);
            return explain(*options);
          }};
}

}  // namespace reprise::tools
