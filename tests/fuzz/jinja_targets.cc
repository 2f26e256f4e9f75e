// Chat templates: any source over a fixed context, fixed templates over any context, and files that contain a
// template.
#include <string>

#include "base/check.h"
#include "models/files/load_error.h"
#include "models/text/chat_template_source.h"
#include "protocol/jinja/template.h"
#include "protocol/reply/reply_message.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/targets.h"
#include "tests/protocol/jinja/samples.h"

// Made from models/builtin/chat_template.jinja.
extern const std::string_view kBuiltinChatTemplate;

namespace reprise::fuzz {
namespace {

using protocol::jinja::RenderOptions;
using protocol::jinja::Template;

RenderOptions small_limits() {
  RenderOptions options;
  options.now = std::chrono::system_clock::from_time_t(1'794'657'600);  // 2026-11-14 12:00:00
  options.limits.steps = 50'000;
  options.limits.output_bytes = 1u << 16;
  options.limits.text_bytes = 1u << 16;
  options.limits.items = 4'000;
  options.limits.memory_bytes = 1u << 22;
  return options;
}

void render_twice(const Template& compiled, const Json& context) {
  const RenderOptions options = small_limits();
  const auto first = compiled.render(context, options);
  const auto second = compiled.render(context, options);
  REPRISE_CHECK(first.ok() == second.ok(), "renders once and fails once");
  if (first.ok()) {
    REPRISE_CHECK(*first == *second, "renders to two texts");
    REPRISE_CHECK(first->size() <= options.limits.output_bytes, "a text over its limit");
  } else {
    REPRISE_CHECK(!first.error().reason.empty(), "an error without a reason");
    REPRISE_CHECK(first.error().describe() == second.error().describe(), "fails in two ways");
  }
}

Template compiled(std::string_view source) {
  auto outcome = Template::compile(source);
  REPRISE_CHECK(outcome.ok(), "a template of ours does not compile");
  return *std::move(outcome);
}

}  // namespace

bool fuzz_jinja_source(std::string_view input) {
  static const Json kContext = *Json::parse(protocol::jinja::test::kContext);
  const auto outcome = Template::compile(input);
  if (!outcome.ok()) {
    REPRISE_CHECK(!outcome.error().reason.empty(), "an error without a reason");
    return false;
  }
  render_twice(*outcome, kContext);
  return true;
}

bool fuzz_jinja_context(std::string_view input) {
  static const Template kBuiltin = compiled(kBuiltinChatTemplate);
  static const Template kMixed = compiled(protocol::jinja::test::kTemplate);
  auto context = Json::parse(input);
  if (!context.ok() || !context->is_object()) return false;
  render_twice(kMixed, *context);
  // As in a chat: arguments of calls are parsed, and null content becomes text.
  if (Json* messages = context->find("messages")) *messages = protocol::template_form(std::move(*messages));
  render_twice(kBuiltin, *context);
  return true;
}

bool fuzz_chat_template_file(std::string_view input) {
  bool taken = false;
  for (const std::string_view name : {"chat_template.json", "tokenizer_config.json"}) {
    const auto file = scratch_file(std::string("template/").append(name), input);
    try {
      const auto source = models::load_chat_template(file.parent_path());
      REPRISE_CHECK(!source || source->size() <= models::kMaxTemplateBytes, "a template over its limit");
      if (source) static_cast<void>(Template::compile(*source));
      taken = taken || source.has_value();
    } catch (const models::LoadError& error) {
      REPRISE_CHECK(!error.reason().empty(), "a refusal without a reason");
    }
    std::filesystem::remove(file);
  }
  return taken;
}

}  // namespace reprise::fuzz
