// Parsing of OpenAI's Responses bodies, and what is stored of them.

#include <gtest/gtest.h>

#include "protocol/api/api_error.h"
#include "protocol/responses/custom_input.h"
#include "protocol/responses/responses_request.h"

namespace reprise::protocol::responses {
namespace {

ResponseRequest read(const std::string& members) {
  ResponseStore store;
  return read_response_request(*Json::parse("{" + members + "}"), {}, store, "");
}
const ChatPrompt& chat_of(const ResponseRequest& request) {
  return std::get<ChatPrompt>(request.asked.generate.prompt);
}
std::string messages_of(const std::string& members) {
  return chat_of(read(members)).messages.dump();
}
std::string refusal_of(const std::string& members) {
  try {
    read(members);
  } catch (const BadRequest& refused) {
    return refused.error().code + " " + refused.error().param;
  }
  return "accepted";
}

TEST(ResponsesRequest, ReadsAText) {
  const ResponseRequest request = read(
      R"("input":"Hello","instructions":"Be brief.","max_output_tokens":9,"temperature":0.5,"store":false,
              "stream":true,"reasoning":{"effort":"low"},"metadata":{"a":"b"})");
  EXPECT_EQ(chat_of(request).messages.dump(),
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hello"}])");
  EXPECT_EQ(request.asked.generate.max_tokens, 9u);
  EXPECT_TRUE(request.asked.stream);
  EXPECT_FALSE(request.store);
  EXPECT_TRUE(request.messages.is_null());
  EXPECT_EQ(chat_of(request).template_extra.dump(), R"({"reasoning_effort":"low"})");
  EXPECT_EQ(request.frame.find("metadata")->dump(), R"({"a":"b"})");
}

TEST(ResponsesRequest, ATurnOfItemsIsOneMessage) {
  EXPECT_EQ(
      messages_of(R"("input":[
        {"role":"developer","content":"Rules."},
        {"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},
        {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},
        {"type":"function_call","call_id":"c1","name":"look","arguments":"{\"at\":\"sky\"}"},
        {"type":"function_call","call_id":"c2","name":"go","arguments":"{}"},
        {"type":"function_call_output","call_id":"c1","output":"blue"},
        {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"far"}]},
        {"role":"assistant","content":"One."},{"role":"assistant","content":"Two."},
        {"role":"developer","content":"More rules."}],"instructions":"Be.")"),
      R"([{"role":"system","content":"Be.\n\nRules."},{"role":"user","content":"a\nb"},)"
      R"({"role":"assistant","content":"I look.","reasoning_content":"hm","tool_calls":[)"
      R"({"id":"c1","type":"function","function":{"name":"look","arguments":"{\"at\":\"sky\"}"}},)"
      R"({"id":"c2","type":"function","function":{"name":"go","arguments":"{}"}}]},)"
      R"({"role":"tool","tool_call_id":"c1","content":"blue"},{"role":"tool","tool_call_id":"c2","content":"far"},)"
      R"({"role":"assistant","content":"One."},{"role":"assistant","content":"Two."},)"
      R"({"role":"developer","content":"More rules."}])");
}

TEST(ResponsesRequest, FindsBlocksAfterTheLastReply) {
  const ChatPrompt chat = chat_of(read(R"("instructions":"Be.","input":[
      {"role":"developer","content":[{"type":"input_text","text":"one"},{"type":"input_text","text":"two"}]},
      {"role":"developer","content":"more"},
      {"role":"user","content":[{"type":"input_text","text":"abc"},{"type":"input_text","text":"de"},{"type":"input_text","text":"f"}]}])"));
  ASSERT_EQ(chat.messages.size(), 2u);
  ASSERT_EQ(chat.blocks.size(), 2u);
  EXPECT_EQ(chat.blocks[0].index, 1u);
  EXPECT_EQ(chat.blocks[0].at, 3u);
  EXPECT_EQ(chat.blocks[1].at, 6u);
  EXPECT_TRUE(
      chat_of(
          read(
              R"("input":[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},
      {"type":"reasoning","content":[{"type":"reasoning_text","text":"r"},{"type":"reasoning_text","text":"s"}]},
      {"role":"assistant","content":[{"type":"output_text","text":"c"},{"type":"output_text","text":"d"}]},
      {"role":"user","content":"e"}])"))
          .blocks.empty());
}

TEST(ResponsesRequest, ReasoningComesBackSealed) {
  const std::string sealed = sealed_text("thought \xc3\xa9", "turn_0");
  EXPECT_EQ(
      messages_of(
          R"("input":[{"role":"user","content":"x"},{"type":"reasoning","summary":[],"encrypted_content":")" +
          sealed + R"("},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},
                        {"type":"function_call_output","call_id":"1","output":""}])"),
      R"([{"role":"user","content":"x"},{"role":"assistant","content":null,"reasoning_content":"thought é","reprise_turn":"turn_0",)"
      R"("tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},)"
      R"({"role":"tool","tool_call_id":"1","content":""}])");
  EXPECT_EQ(
      messages_of(
          R"("input":[{"role":"user","content":"x"},{"type":"reasoning","encrypted_content":"gAAAother"}])"),
      R"([{"role":"user","content":"x"}])")
      << "another server's";
  EXPECT_EQ(
      refusal_of(
          R"("input":[{"role":"user","content":"x"},{"type":"reasoning","encrypted_content":"reprise-2:x:%"}])"),
      "invalid_value input[1].encrypted_content");
}

TEST(ResponsesRequest, OtherToolsAreSkipped) {
  const ResponseRequest request =
      read(R"("input":"x","tools":[{"type":"web_search"},{"type":"image_generation"},
      {"type":"function","name":"look","description":"Looks.","parameters":{"type":"object"},"strict":false},{"type":"local_shell"}])");
  EXPECT_EQ(
      chat_of(request).tools.dump(),
      R"([{"type":"function","function":{"name":"look","description":"Looks.","parameters":{"type":"object"}}}])");
  EXPECT_EQ(request.asked.tool_choice.mode, ToolChoice::Mode::kAuto);
  EXPECT_EQ(request.frame.find("tools")->size(), 4u) << "the response repeats what was asked";
  EXPECT_EQ(read(R"("input":"x","tools":[{"type":"web_search"}])").asked.tool_choice.mode,
            ToolChoice::Mode::kNone);
  EXPECT_EQ(
      read(
          R"("input":"x","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"f"})")
          .asked.tool_choice.name,
      "f");
}

TEST(ResponsesRequest, CustomToolsTakeAText) {
  const ResponseRequest request = read(R"("input":"x","tools":[
      {"type":"custom","name":"run","description":"Runs.","format":{"type":"text"}},
      {"type":"custom","name":"patch","format":{"type":"grammar","syntax":"lark","definition":"start: \"a\""}}],
      "tool_choice":{"type":"custom","name":"patch"})");
  const ChatPrompt& chat = chat_of(request);
  EXPECT_EQ(
      chat.tools.as_array()[0].dump(),
      R"({"type":"function","function":{"name":"run","description":"Runs.","parameters":{"type":"object",)"
      R"("properties":{"input":{"type":"string","description":"The whole input, as plain text"}},)"
      R"("required":["input"],"additionalProperties":false}}})");
  EXPECT_NE(chat.tools.as_array()[1].dump().find(R"(this Lark grammar:\nstart: \"a\")"), std::string::npos);
  ASSERT_EQ(chat.text_tools.size(), 2u);
  EXPECT_EQ(chat.text_tools[0].input.kind, grammar::TextRule::Kind::kAny);
  EXPECT_EQ(chat.text_tools[1].input.kind, grammar::TextRule::Kind::kLark);
  EXPECT_EQ(chat.text_tools[1].input.text, "start: \"a\"");
  EXPECT_EQ(request.asked.tool_choice.name, "patch");
  const auto format = [](const std::string& members) {
    return refusal_of(R"("input":"x","tools":[{"type":"custom","name":"t","format":{)" + members + "}}]");
  };
  EXPECT_EQ(format(R"("type":"grammar","syntax":"regex","definition":"a+")"), "accepted");
  EXPECT_EQ(format(R"("type":"grammar","syntax":"gbnf","definition":"x")"),
            "unsupported_parameter tools[0].format.syntax");
  EXPECT_EQ(format(R"("type":"grammar","syntax":"lark")"), "missing tools[0].format.definition");
  EXPECT_EQ(format(R"("type":"json")"), "unsupported_parameter tools[0].format.type");
  EXPECT_EQ(refusal_of(R"("input":"x","tools":[{"type":"custom","name":"t"}],)"
                       R"("tool_choice":{"type":"function","name":"t"})"),
            "invalid_value tool_choice.name");
}

TEST(ResponsesRequest, CustomCallsAreCallsOfTheChat) {
  EXPECT_EQ(
      messages_of(R"("input":[{"role":"user","content":"x"},
        {"type":"custom_tool_call","call_id":"c1","name":"patch","input":"a\n\"b\"","status":"completed"},
        {"type":"custom_tool_call_output","call_id":"c1","output":"done"},
        {"type":"function_call","call_id":"c2","name":"look","namespace":"mcp__eyes","arguments":"{}"}])"),
      R"([{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",)"
      R"("function":{"name":"patch","arguments":"{\"input\":\"a\\n\\\"b\\\"\"}"}}]},)"
      R"({"role":"tool","tool_call_id":"c1","content":"done"},{"role":"assistant","content":null,"tool_calls":[)"
      R"({"id":"c2","type":"function","function":{"name":"mcp__eyes__look","arguments":"{}"}}]}])");
  EXPECT_EQ(refusal_of(R"("input":[{"type":"custom_tool_call","call_id":"c","name":"f"}])"),
            "missing input[0].input");
}

TEST(ResponsesRequest, ToolsOfANamespaceHaveItsNameBeforeTheirs) {
  const ResponseRequest request = read(R"("input":"x","tools":[{"type":"namespace","name":"eyes","tools":[
      {"type":"function","name":"look"},{"type":"custom","name":"draw"},{"type":"namespace","name":"no","tools":[]}]}],
      "tool_choice":{"type":"function","name":"look","namespace":"eyes"})");
  ASSERT_EQ(request.tools.size(), 2u);
  EXPECT_EQ(request.tools[0].shown, "eyes__look");
  EXPECT_EQ(request.tools[0].name_space, "eyes");
  EXPECT_TRUE(request.tools[1].takes_text);
  EXPECT_EQ(request.asked.tool_choice.name, "eyes__look");
}

TEST(ResponsesRequest, ACompactionAsksForASummary) {
  const std::string input =
      R"("input":[{"role":"user","content":"one"},{"role":"assistant","content":"1"},{"type":"message","role":"user",)"
      R"("content":[{"type":"input_text","text":"two"}]}],"instructions":"Be.",)"
      R"("tools":[{"type":"function","name":"f"}],"tool_choice":"required")";
  ResponseStore store;
  const ResponseRequest whole =
      read_response_request(*Json::parse("{" + input + "}"), {}, store, "", ResponseKind::kCompaction);
  EXPECT_EQ(
      whole.kept.dump(),
      R"([{"role":"user","content":"one"},{"type":"message","role":"user","content":[{"type":"input_text","text":"two"}]}])");
  EXPECT_EQ(whole.asked.tool_choice.mode, ToolChoice::Mode::kNone);
  EXPECT_EQ(chat_of(whole).tools.size(), 1u) << "the prompt begins as the conversation's others do";
  EXPECT_EQ(chat_of(whole).messages.size(), 5u);
  EXPECT_EQ(whole.asked.generate.max_tokens, 4096u);
  EXPECT_FALSE(whole.store);

  const ResponseRequest item = read(
      R"("input":[{"role":"user","content":"one"},{"type":"compaction_trigger"}],"max_output_tokens":70)");
  EXPECT_EQ(item.kind, ResponseKind::kCompactionItem);
  EXPECT_EQ(chat_of(item).messages.size(), 2u);
  EXPECT_EQ(item.asked.generate.max_tokens, 70u);
  EXPECT_EQ(refusal_of(R"("input":[{"type":"compaction_trigger"},{"role":"user","content":"one"}])"),
            "invalid_value input[0].type");
}

TEST(ResponsesRequest, ACompactionIsReadBack) {
  const auto with = [](const std::string& sealed) {
    return R"("input":[{"role":"user","content":"x"},{"type":"compaction","encrypted_content":")" + sealed +
           "\"}]";
  };
  EXPECT_EQ(
      messages_of(with(sealed_text("All is well."))),
      R"([{"role":"user","content":"x"},{"role":"user","content":"The earlier part of this conversation was )"
      R"(replaced by this summary of it:\n\nAll is well."}])");
  EXPECT_EQ(refusal_of(with("gAAAother")), "invalid_value input[1].encrypted_content");
}

TEST(ResponsesRequest, RetentionSetsDiskRetention) {
  EXPECT_EQ(read(R"("input":"x","prompt_cache_retention":"24h")").asked.generate.cache.disk_retention,
            std::chrono::hours(24));
  EXPECT_EQ(read(R"("input":"x","prompt_cache_retention":"in_memory")").asked.generate.cache.disk_retention,
            std::chrono::hours(0));
  EXPECT_EQ(refusal_of(R"("input":"x","prompt_cache_retention":"1h")"),
            "invalid_value prompt_cache_retention");
}

std::string read_input_of(const std::string& json, std::size_t piece) {
  CustomInput input;
  std::string text;
  for (std::size_t at = 0; at < json.size(); at += piece) text += input.push(json.substr(at, piece));
  return text + input.finish();
}

TEST(CustomInput, IsTheSameHoweverItIsCut) {
  for (const auto& [json, text] : std::vector<std::pair<std::string, std::string>>{
           {R"({"input":"a\n\u00e9\ud83d\ude00 \"q\""})", "a\n\xC3\xA9\xF0\x9F\x98\x80 \"q\""},
           {" { \"input\" : \"raw\nline \xC3\xA9\" } ", "raw\nline \xC3\xA9"},
           {R"({"other":1,"input":"later"})", "later"},
           {R"({"patch":"x"})", R"({"patch":"x"})"},
           {"no JSON", "no JSON"},
           {R"({"input":"cut o)", "cut o"},
           {"", ""}}) {
    for (std::size_t piece = 1; piece < 9; ++piece)
      EXPECT_EQ(read_input_of(json, piece), text) << json << piece;
  }
}

TEST(ResponsesRequest, AFormatIsAConstraint) {
  const auto constraint =
      read(R"("input":"x","text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}})")
          .asked.generate.rules.constraint;
  EXPECT_EQ(constraint.kind, grammar::Constraint::Kind::kJsonSchema);
  EXPECT_EQ(constraint.field, "text.format.schema");
}

TEST(ResponsesRequest, GoesOnFromAStoredResponse) {
  ResponseStore store;
  store.put(
      {"ann"}, "resp_1",
      {.body = "{}", .messages = R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])"});
  const auto body = Json::parse(R"({"input":"c","previous_response_id":"resp_1","instructions":"I."})");
  const ResponseRequest request = read_response_request(*body, {}, store, "ann");
  EXPECT_EQ(
      chat_of(request).messages.dump(),
      R"([{"role":"system","content":"I."},{"role":"user","content":"a"},{"role":"assistant","content":"b"},)"
      R"({"role":"user","content":"c"}])");
  EXPECT_EQ(request.messages.size(), 3u) << "without the instructions, which are this request's alone";
  try {
    read_response_request(*body, {}, store, "bob");
    ADD_FAILURE() << "another tenant's response";
  } catch (const BadRequest& refused) {
    EXPECT_EQ(refused.error().code, "previous_response_not_found");
  }
}

TEST(ResponsesRequest, RefusalsNameTheField) {
  EXPECT_EQ(refusal_of(""), "missing input");
  EXPECT_EQ(refusal_of(R"("input":7)"), "invalid_type input");
  EXPECT_EQ(refusal_of(R"("input":[])"), "invalid_value input");
  EXPECT_EQ(refusal_of(R"("input":[{"role":"tool","content":"x"}])"), "invalid_value input[0].role");
  EXPECT_EQ(refusal_of(R"("input":[{"type":"web_search_call"}])"), "unsupported_parameter input[0].type");
  EXPECT_EQ(refusal_of(R"("input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}])"),
            "unsupported_parameter input[0].content[0].type");
  EXPECT_EQ(refusal_of(R"("input":[{"type":"function_call_output","output":"x"}])"),
            "missing input[0].call_id");
  EXPECT_EQ(refusal_of(R"("input":"x","background":true)"), "unsupported_parameter background");
  EXPECT_EQ(refusal_of(R"("input":"x","tool_choice":"required","tools":[{"type":"web_search"}])"),
            "invalid_value tool_choice");
  EXPECT_EQ(refusal_of(R"("input":"x","truncation":"auto")"), "unsupported_parameter truncation");
  EXPECT_EQ(refusal_of(R"("input":"x","max_output_tokens":0)"), "out_of_range max_output_tokens");
}

TEST(ResponseStore, KeepsATenantWithinItsBounds) {
  ResponseStore store({.responses = 2, .tenant_bytes = 1u << 20, .bytes = 1u << 20});
  store.put({"a"}, "1", {"one", ""});
  store.put({"a"}, "2", {"two", ""});
  store.put({"b"}, "1", {"another's", ""});
  EXPECT_EQ(store.find({"a"}, "1")->body, "one");  // used: the other is dropped first
  store.put({"a"}, "3", {"three", ""});
  EXPECT_FALSE(store.find({"a"}, "2"));
  EXPECT_TRUE(store.find({"a"}, "1") && store.find({"a"}, "3") && store.find({"b"}, "1"));
  EXPECT_TRUE(store.erase({"a"}, "1"));
  EXPECT_FALSE(store.erase({"a"}, "1"));
  EXPECT_FALSE(store.erase({"a"}, "9"));
  store.put({"a"}, "3", {"again", ""});
  EXPECT_EQ(store.find({"a"}, "3")->body, "again");
  EXPECT_TRUE(store.erase({"a"}, "3") && store.erase({"b"}, "1"));
  EXPECT_EQ(store.bytes(), 0u);
}

TEST(ResponseStore, KeepsSaltsApartAndCountsThemTogether) {
  ResponseStore store({.responses = 2, .tenant_bytes = 1u << 20, .bytes = 1u << 20});
  store.put({"a", "salt"}, "1", {"salted", ""});
  EXPECT_FALSE(store.find({"a"}, "1"));
  EXPECT_FALSE(store.find({"a", "other"}, "1"));
  EXPECT_FALSE(store.erase({"a"}, "1"));
  EXPECT_EQ(store.find({"a", "salt"}, "1")->body, "salted");
  store.put({"a"}, "2", {"two", ""});
  store.put({"a", "other"}, "3", {"three", ""});
  EXPECT_FALSE(store.find({"a", "salt"}, "1")) << "the tenant has two";
  EXPECT_TRUE(store.find({"a"}, "2") && store.find({"a", "other"}, "3"));
}

TEST(ResponseStore, KeepsAllWithinTheirBytes) {
  ResponseStore store({.responses = 100, .tenant_bytes = 20'000, .bytes = 30'000});
  const std::string text(8'000, 'x');
  store.put({"a"}, "1", {text, ""});
  store.put({"a"}, "2", {text, ""});
  store.put({"a"}, "3", {text, ""});  // beyond a tenant's bound
  EXPECT_FALSE(store.find({"a"}, "1"));
  store.put({"b"}, "1", {text, ""});
  store.put({"c"}, "1", {text, ""});  // beyond the total bound: the oldest of all is dropped
  EXPECT_FALSE(store.find({"a"}, "2"));
  EXPECT_TRUE(store.find({"a"}, "3") && store.find({"b"}, "1") && store.find({"c"}, "1"));
  EXPECT_LE(store.bytes(), 30'000u);
  store.put({"d"}, "1", {std::string(25'000, 'x'), ""});
  EXPECT_FALSE(store.find({"d"}, "1")) << "larger than all that a tenant may have";
}

}  // namespace
}  // namespace reprise::protocol::responses
