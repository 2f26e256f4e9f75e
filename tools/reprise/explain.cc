#include "tools/reprise/explain.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>

#include "actors/request/chat_tokens.h"
#include "actors/request/prompt_text.h"
#include "models/text/chat_template_source.h"
#include "models/text/tokenizer_load.h"
#include "protocol/apis.h"
#include "protocol/chat/named_templates.h"
#include "tools/reprise/engine_flags.h"
#include "tools/reprise/json_text.h"

namespace reprise::tools {
namespace {

/// Whether a message or a tool is written as Anthropic's Messages have it.
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

/// The prompt of the request in the file, as a server would read it.
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
      if (const auto* error = std::get_if<protocol::ApiError>(&parsed))
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

}  // namespace

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
  std::printf("both:   %s\nfirst:  %s\nsecond: %s\n", json_string(left.before).c_str(),
              json_string(left.after).c_str(), json_string(right.after).c_str());
  return std::ferror(stdout) != 0 ? 1 : 0;
}

}  // namespace reprise::tools
