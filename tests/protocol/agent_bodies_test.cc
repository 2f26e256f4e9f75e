// Bodies as coding agents send them, through the three APIs they use: system notes between messages keep
// their positions in every template, and unsupported content in history does not end the session.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "protocol/anthropic/messages_request.h"
#include "protocol/api/api_error.h"
#include "protocol/api/completions_request.h"
#include "protocol/chat/chat_format.h"
#include "protocol/responses/responses_request.h"
#include "tests/oracle_folder.h"

namespace reprise::protocol::agent_bodies {
namespace {

/// Like Qwen3.5's: a system message must come first, and reasoning is shown only after the last user message.
constexpr const char* kStrict = R"({%- set ns = namespace(last=0) -%}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor -%}
{%- for m in messages -%}
{%- if m.role == 'system' -%}
{%- if not loop.first %}{{ raise_exception('System message must be at the beginning.') }}{% endif -%}
<s>{{ m.content }}</s>
{%- elif m.role == 'user' -%}<u>{{ m.content }}</u>
{%- elif m.role == 'assistant' -%}<a>
{%- if loop.index0 > ns.last %}<think>{{ m.reasoning_content }}</think>{% endif -%}
{{ m.content }}{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}</call>{% endfor %}</a>
{%- elif m.role == 'tool' -%}<t>{{ m.content }}</t>
{%- else %}{{ raise_exception('Unexpected message role.') }}{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}<a>{% endif -%})";

/// Shows every role at its position.
constexpr const char* kOpen =
    R"({% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %})";

/// Requires alternating user and assistant messages, without system message and tools.
constexpr const char* kTurns = R"({%- for m in messages -%}
{%- if m.role not in ['user', 'assistant'] or (m.role == 'user') != (loop.index0 % 2 == 0) -%}
{{ raise_exception('Conversation roles must alternate') }}{% endif -%}
<{{ m.role }}>{{ m.content }}</>{% endfor -%}
{%- if add_generation_prompt %}<assistant>{% endif -%})";

/// Shows the last system message at the beginning, wherever it was.
constexpr const char* kHoists = R"({%- set ns = namespace(s='') -%}
{%- for m in messages %}{% if m.role == 'system' %}{% set ns.s = m.content %}{% endif %}{% endfor -%}
{{ ns.s }}{% for m in messages %}{% if m.role != 'system' %}<{{ m.role }}>{{ m.content }}</>{% endif %}{% endfor -%})";

ChatFormatPtr format(std::string source, SystemMessageMode choice = SystemMessageMode::kAuto) {
  auto made = ChatFormat::make(std::move(source), {}, {}, choice);
  EXPECT_TRUE(made.ok());
  return *made;
}
std::string shown(const ChatFormat& format, const Json& messages, bool with_reply = false) {
  const auto text = format.render({.messages = messages, .add_generation_prompt = with_reply});
  return text.ok() ? *text : text.error().message;
}
std::string shown(const char* source, const char* messages,
                  SystemMessageMode choice = SystemMessageMode::kAuto) {
  const auto json = Json::parse(messages);
  EXPECT_TRUE(json.ok()) << messages;
  return shown(*format(source, choice), *json);
}

Json chat_of(const std::string& body) {
  const auto parsed = parse_request(TextKind::kChat, body, {});
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return std::get<ChatPrompt>(parsed->asked.generate.prompt).messages;
}
Json anthropic_of(const std::string& body) {
  const ApiRequest request = anthropic::read_messages_request(*Json::parse(body), {});
  return std::get<ChatPrompt>(request.generate.prompt).messages;
}
Json responses_of(const std::string& body) {
  responses::ResponseStore store;
  const auto request = responses::read_response_request(*Json::parse(body), {}, store, "");
  return std::get<ChatPrompt>(request.asked.generate.prompt).messages;
}
/// Returns "code param" of the body's error.
template <class Read>
std::string refusal(Read read, const std::string& body) {
  try {
    read(body);
  } catch (const BadRequest& refused) {
    return refused.error().code + " " + refused.error().param;
  }
  return "accepted";
}

// -- the template's input

TEST(SystemMessages, CapableTemplateGetsThemUnchanged) {
  EXPECT_EQ(
      shown(kOpen,
            R"([{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"system","content":"n"},
              {"role":"developer","content":"d"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}])"),
      "<system>s</><user>a</><system>n</><developer>d</><assistant>b</><user>c</>");
}

TEST(SystemMessages, OtherTemplatesGetUserReminders) {
  EXPECT_EQ(
      shown(
          kStrict,
          R"([{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"developer","content":"n"},
              {"role":"assistant","content":"b"},{"role":"system","content":"m"},{"role":"user","content":"c"}])"),
      "<s>s</s><u>a</u><u><system-reminder>\nn\n</system-reminder></u><a>b</a>"
      "<u><system-reminder>\nm\n</system-reminder></u><u>c</u>");
}

TEST(SystemMessages, HoistingTemplateGetsReminders) {
  const std::string text = shown(
      kHoists,
      R"([{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"system","content":"n"}])");
  EXPECT_EQ(text, "s<user>a</><user><system-reminder>\nn\n</system-reminder></>");
}

TEST(SystemMessages, JoinPreviousUserIfRolesMustAlternate) {
  EXPECT_EQ(
      shown(
          kTurns,
          R"([{"role":"user","content":"a"},{"role":"system","content":"n"},{"role":"assistant","content":"b"},
                {"role":"system","content":"m"},{"role":"user","content":"c"},{"role":"system","content":"o"}])"),
      "<user>a\n<system-reminder>\nn\n</system-reminder></><assistant>b</>"
      "<user><system-reminder>\nm\n</system-reminder>\nc\n<system-reminder>\no\n</system-reminder></>");
}

TEST(SystemMessages, MoveAfterTheResultsOfACall) {
  constexpr const char* kLoop = R"([{"role":"user","content":"a"},
      {"role":"assistant","content":"","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}},
        {"id":"2","function":{"name":"g","arguments":"{}"}}]},
      {"role":"system","content":"n"},{"role":"tool","tool_call_id":"1","content":"x"},
      {"role":"system","content":"m"},{"role":"tool","tool_call_id":"2","content":"y"},
      {"role":"assistant","content":"b"}])";
  EXPECT_EQ(shown(kOpen, kLoop),
            "<user>a</><assistant></><tool>x</><tool>y</><system>n</><system>m</><assistant>b</>");
  EXPECT_EQ(shown(kStrict, kLoop),
            "<u>a</u><a><think></think><call>f</call><call>g</call></a><t>x</t><t>y\n"
            "<system-reminder>\nn\n</system-reminder>\n<system-reminder>\nm\n</system-reminder></t>"
            "<a><think></think>b</a>")
      << "as the user's own message it would strip the reasoning before it";
}

TEST(SystemMessages, LeadingSystemMessagesAreJoinedForTheTemplate) {
  constexpr const char* kFirst = R"([{"role":"developer","content":"s"},{"role":"system","content":"t"},
      {"role":"user","content":"a"}])";
  EXPECT_EQ(shown(kStrict, kFirst), "<s>s\n\nt</s><u>a</u>");
  EXPECT_EQ(shown(kOpen, kFirst), "<developer>s</><system>t</><user>a</>");
}

TEST(SystemMessages, OperatorMayChoose) {
  constexpr const char* kLate = R"([{"role":"user","content":"a"},{"role":"system","content":"n"}])";
  EXPECT_EQ(shown(kOpen, kLate, SystemMessageMode::kUser),
            "<user>a</><user><system-reminder>\nn\n</system-reminder></>");
  EXPECT_NE(shown(kStrict, kLate, SystemMessageMode::kTemplate).find("must be at the beginning"),
            std::string::npos);
  EXPECT_EQ(system_message_mode_named("user"), SystemMessageMode::kUser);
  EXPECT_FALSE(system_message_mode_named("first"));
}

// -- sessions

constexpr const char* kNoteA = "The following agents are available: explorer, planner.";
constexpr const char* kNoteB = "Tokens left: 181204.";

/// Returns the messages of each request of a session: a question with notes after it, a call, its result with
/// a note, another call without a note at its result, and an answer to continue from.
std::vector<Json> claude_session() {
  const std::string ask =
      R"({"role":"user","content":[{"type":"text","text":"<system-reminder>\nToday is a Friday.\n</system-reminder>"},
          {"type":"text","text":"Mend the sum in calc.py"}]},{"role":"system","content":")" +
      std::string(kNoteA) + "\"}";
  const auto step = [](const char* id, const char* result) {
    return std::string(
               R"(,{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":")") +
           id + R"(","name":"Read","input":{"file_path":"/p/calc.py"}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":")" +
           id + R"(","content":[{"type":"text","text":")" + result + R"("}]}]})";
  };
  const std::string one = step("toolu_1", "return a - b");
  const std::string note =
      R"(,{"role":"system","content":[{"type":"text","text":")" + std::string(kNoteB) + "\"}]}";
  std::string so_far;
  std::vector<Json> requests;
  for (const std::string& more : {ask, one + note, step("toolu_2", "README")}) {
    so_far += more;
    requests.push_back(
        anthropic_of(R"({"max_tokens":8,"system":[{"type":"text","text":"You write code."}],"messages":[)" +
                     so_far + "]}"));
  }
  return requests;
}
std::vector<Json> opencode_session() {
  const std::string ask =
      R"({"role":"system","content":"You write code."},{"role":"user","content":"Mend the sum in calc.py"},
      {"role":"developer","content":")" +
      std::string(kNoteA) + "\"}";
  const auto step = [](const char* id, const char* result) {
    return std::string(R"(,{"role":"assistant","content":"I look.","tool_calls":[{"id":")") + id +
           R"(","type":"function","function":{"name":"read","arguments":"{\"filePath\":\"calc.py\"}"}}]},
        {"role":"tool","tool_call_id":")" +
           id + R"(","content":")" + result + "\"}";
  };
  std::string so_far;
  std::vector<Json> requests;
  const std::string note = R"(,{"role":"system","content":")" + std::string(kNoteB) + "\"}";
  for (const std::string& more : {ask, step("1", "return a - b") + note, step("2", "README")}) {
    so_far += more;
    requests.push_back(chat_of(R"({"messages":[)" + so_far + "]}"));
  }
  return requests;
}
std::vector<Json> codex_session() {
  const auto text = [](const char* role, const char* words) {
    return std::string(R"({"type":"message","role":")") + role +
           R"(","content":[{"type":"input_text","text":")" + words + "\"}]}";
  };
  const auto step = [](const char* id, const char* result) {
    return std::string(
               R"(,{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},
        {"type":"function_call","call_id":")") +
           id + R"(","name":"exec_command","arguments":"{\"cmd\":\"ls\"}"},
        {"type":"function_call_output","call_id":")" +
           id + R"(","output":")" + result + "\"}";
  };
  std::string so_far;
  std::vector<Json> requests;
  for (const std::string& more :
       {text("developer", "Sandbox: read only.") + "," + text("user", "Mend the sum in calc.py") + "," +
            text("developer", kNoteA),
        step("1", "calc.py") + "," + text("developer", kNoteB), step("2", "README")}) {
    so_far += more;
    requests.push_back(responses_of(R"({"instructions":"You write code.","input":[)" + so_far + "]}"));
  }
  return requests;
}

/// Expects each request to begin with everything the previous one showed, and notes to follow what preceded
/// them.
void expect_prefixes(const ChatFormat& format, const std::vector<Json>& requests, const std::string& where) {
  std::string before;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto rendered = format.render({.messages = requests[i], .add_generation_prompt = false});
    ASSERT_TRUE(rendered.ok()) << where << ": " << rendered.error().message;
    EXPECT_TRUE(rendered->starts_with(before)) << where << ", request " << i << ":\n"
                                               << *rendered << "\nafter\n"
                                               << before;
    const std::size_t asked = rendered->find("Mend the sum"), note = rendered->find(kNoteA);
    EXPECT_TRUE(asked < note && note != std::string::npos) << where << ":\n" << *rendered;
    const std::size_t late = rendered->find(kNoteB, i == 1 ? before.size() : 0);
    EXPECT_EQ(late != std::string::npos, i > 0) << where << ":\n" << *rendered;
    before = *rendered;
  }
}

TEST(AgentSession, EachRequestBeginsWithTheOneBeforeIt) {
  for (const char* source : {kStrict, kOpen, kHoists}) {
    expect_prefixes(*format(source), claude_session(), source);
    expect_prefixes(*format(source), opencode_session(), source);
    expect_prefixes(*format(source), codex_session(), source);
  }
}

/// Returns true if the template keeps prefixes without system notes; some accept no tools or no system
/// message.
bool keeps_prefixes(const ChatFormat& format, std::vector<Json> requests) {
  std::string before;
  for (Json& messages : requests) {
    Json plain = Json::array();
    for (const Json& each : messages.as_array()) {
      const std::string& role = *each.find_string("role");
      if (plain.size() == 0 || (role != "system" && role != "developer")) plain.push_back(each);
    }
    const auto rendered = format.render({.messages = std::move(plain), .add_generation_prompt = false});
    if (!rendered.ok() || !rendered->starts_with(before)) return false;
    before = *rendered;
  }
  return true;
}

TEST(AgentSession, PublishedTemplates) {
  std::size_t sessions = 0;
  for (const std::filesystem::path& folder : {reprise::test::data_folder(), reprise::test::oracle_folder()}) {
    for (const std::filesystem::path& path : reprise::test::files_in(folder / "templates", ".jinja")) {
      std::ifstream file(path, std::ios::binary);
      const ChatFormatPtr chat = format({std::istreambuf_iterator<char>(file), {}});
      for (const auto& session : {claude_session(), opencode_session(), codex_session()}) {
        if (!keeps_prefixes(*chat, session)) continue;
        expect_prefixes(*chat, session, path.filename());
        ++sessions;
      }
    }
  }
  EXPECT_GT(sessions, 0u);
}

// -- unsupported content

TEST(AgentHistory, ImagesInResultsAndHistoryBecomeWords) {
  EXPECT_EQ(
      anthropic_of(R"({"max_tokens":8,"messages":[
      {"role":"user","content":[{"type":"image","source":{}},{"type":"text","text":"what is it"}]},
      {"role":"assistant","content":[{"type":"server_tool_use","id":"1"},{"type":"tool_use","id":"t","name":"Read","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{}},{"type":"text","text":"x"}]}]}]})")
          .dump(),
      R"([{"role":"user","content":"[image omitted: this model takes text only]\nwhat is it"},)"
      R"({"role":"assistant","content":"[server_tool_use omitted: this model takes text only]","tool_calls":[)"
      R"({"id":"t","type":"function","function":{"name":"Read","arguments":{}}}]},)"
      R"({"role":"tool","tool_call_id":"t","content":"[image omitted: this model takes text only]\nx"}])");
  EXPECT_EQ(shown(*format(kOpen), chat_of(R"({"messages":[
      {"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]},
      {"role":"assistant","content":[{"type":"text","text":"a"},{"type":"audio"}]},
      {"role":"tool","tool_call_id":"t","content":[{"type":"image_url"}]},{"role":"user","content":"go on"}]})")),
            "<user>[image omitted: this model takes text only]</>"
            "<assistant>a\n[audio omitted: this model takes text only]</>"
            "<tool>[image omitted: this model takes text only]</><user>go on</>");
  EXPECT_EQ(
      responses_of(R"({"input":[
      {"role":"user","content":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"x"}]},
      {"type":"function_call","call_id":"1","name":"f","arguments":"{}"},
      {"type":"function_call_output","call_id":"1","output":[{"type":"input_image","image_url":"x"}]}]})")
          .dump(),
      R"([{"role":"user","content":"see\n[image omitted: this model takes text only]"},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},)"
      R"({"role":"tool","tool_call_id":"1","content":"[image omitted: this model takes text only]"}])");
}

TEST(AgentHistory, ANewMessageWithAnImageIsRefusedByName) {
  EXPECT_EQ(
      refusal(anthropic_of,
              R"({"max_tokens":8,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},
      {"role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{}}]},{"role":"system","content":"n"}]})"),
      "unsupported_parameter messages[2].content[1].type");
  const auto chat = parse_request(TextKind::kChat, R"({"messages":[{"role":"user","content":"a"},
      {"role":"user","content":[{"type":"image_url"}]},{"role":"system","content":"n"}]})",
                                  {});
  ASSERT_FALSE(chat.ok());
  EXPECT_EQ(chat.error().param, "messages[1].content[0].type");
  EXPECT_EQ(
      refusal(responses_of, R"({"input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},
      {"role":"user","content":[{"type":"input_image"}]},{"role":"developer","content":"n"}]})"),
      "unsupported_parameter input[2].content[0].type");
}

}  // namespace
}  // namespace reprise::protocol::agent_bodies
