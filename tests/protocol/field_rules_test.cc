// Every field is read, refused by name, reported, or ignored for a documented reason, in every API, and
// docs/api/fields.md agrees.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "protocol/api/field_rules.h"
#include "protocol/apis.h"
#include "tests/protocol/answers.h"
#include "tests/protocol/served.h"
#include "tests/source_folder.h"

namespace reprise::protocol {
namespace {

using Fate = FieldRule::Fate;
using Names = std::set<std::string>;

struct ReadApi {
  std::string name;  // as in the tables of docs/api/fields.md, if it is there
  std::string path;
  std::string base;         // a body without its closing brace
  bool in_options = false;  // fields go into "options"
};

const std::string kMessages = R"("messages":[{"role":"user","content":"hi"}])";

const std::vector<ReadApi>& read_apis() {
  static const std::vector<ReadApi> kApis = {
      {"chat", "/v1/chat/completions", "{" + kMessages},
      {"completions", "/v1/completions", R"({"prompt":"hi")"},
      {"llama", "/completion", R"({"prompt":"hi")"},
      {"Ollama", "/api/chat", R"({"model":"fake",)" + kMessages},
      {"options", "/api/chat", R"({"model":"fake",)" + kMessages, true},
      {"Messages", "/v1/messages", R"({"max_tokens":8,)" + kMessages},
      {"Responses", "/v1/responses", R"({"input":"hi")"},
      {"embeddings", "/v1/embeddings", R"({"input":"hi")"},
      {"", "/chat/completions", "{" + kMessages},
      {"", "/infill", R"({"input_prefix":"a","input_suffix":"b")"},
      {"", "/api/generate", R"({"model":"fake","prompt":"hi")"},
      {"", "/api/show", R"({"model":"fake")"},
      {"", "/v1/messages/count_tokens", "{" + kMessages},
      {"", "/v1/responses/compact", R"({"input":"hi")"},
      {"", "/v1/responses/input_tokens", R"({"input":"hi")"},
      {"", "/v1/snapshots", R"({"name":"base",)" + kMessages},
      {"", "/tokenize", R"({"content":"hi")"},
      {"", "/detokenize", R"({"tokens":[1])"},
      {"", "/apply-template", "{" + kMessages},
      {"", "/chat/completions/input_tokens", "{" + kMessages},
      {"", "/chat/completions/control", R"({"id":"a","action":"reasoning_end")"},
  };
  return kApis;
}

const ReadApi& api_named(const std::string& name) {
  return *std::find_if(read_apis().begin(), read_apis().end(),
                       [&](const ReadApi& api) { return api.name == name; });
}

struct Outcome {
  std::optional<Error> refusal{};
  Names unknown{};
};

Outcome read(const ReadApi& api, const std::string& body) {
  static const ApiTable kTable = all_apis();
  const auto route = std::find_if(kTable.routes.begin(), kTable.routes.end(), [&](const ApiRoute& one) {
    return one.path == api.path && one.method == HttpMethod::kPost;
  });
  if (route == kTable.routes.end()) {
    ADD_FAILURE() << "nothing at " << api.path;
    return {};
  }
  const auto set_of = [](const std::vector<std::string>& names) { return Names(names.begin(), names.end()); };
  try {
    ParsedCall call = route->endpoint->parse({.body = body}, BodyLimits{});
    if (auto* error = std::get_if<Error>(&call)) return {.refusal = *error};
    if (auto* asked = std::get_if<std::unique_ptr<GenerationCall>>(&call)) {
      return {.unknown = set_of((*asked)->request.unknown_fields)};
    }
    return {.unknown = set_of(std::get<std::unique_ptr<Question>>(call)->unknown_fields)};
  } catch (const BadRequest& refused) {
    return {.refusal = refused.error()};
  }
}

/// Parses the body with one more member, given as text, e.g. "seed": 7.
Outcome read_with(const ReadApi& api, const std::string& member) {
  return read(api, api.base + (api.in_options ? R"(,"options":{)" + member + "}}" : "," + member + "}"));
}

/// Returns the top-level names of the body, or of Ollama's options, that the API's reader looks up.
const Names& looked_up(const ReadApi& api) {
  static std::map<const ReadApi*, Names> known;
  const auto found = known.find(&api);
  if (found != known.end()) return found->second;
  Names names;
  LookupRecorder recorder;
  const Outcome outcome = read(api, api.base + "}");
  EXPECT_FALSE(outcome.refusal) << api.path << outcome.refusal->message;
  EXPECT_TRUE(outcome.unknown.empty()) << api.path;
  const std::string before = api.in_options ? "options." : "";
  for (const std::string& path : recorder.paths) {
    if (!path.starts_with(before)) continue;
    const std::string name = path.substr(before.size());
    if (name.find('.') == std::string::npos) names.insert(name);
  }
  if (api.in_options) {  // looked up, but not an option
    for (const char* name : {"model", "stream", "reprise"}) names.erase(name);
  }
  return known[&api] = std::move(names);
}

/// Returns true if the name denotes a nested field.
bool is_nested(std::string_view name) {
  return name.find('.') != std::string_view::npos && !name.starts_with("speculative.");
}

const FieldRule* rule_of(std::string_view name) {
  for (const FieldRule& rule : field_rules()) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

// -- documentation

std::vector<std::string> lines_of_page() {
  std::ifstream stream(source_folder() / "docs" / "api" / "fields.md");
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  for (std::size_t at = 2; at < line.size();) {
    const std::size_t end = std::min(line.find(" |", at), line.size());
    cells.push_back(line.substr(at, end - at));
    at = end + 3;
  }
  return cells;
}

/// Returns the rows of the table in docs/api/fields.md whose head begins with `head`.
std::vector<std::vector<std::string>> rows_below(const std::string& head) {
  std::vector<std::vector<std::string>> rows;
  bool within = false;
  for (const std::string& line : lines_of_page()) {
    if (within && !line.starts_with("| ")) {
      if (line.starts_with("|-")) continue;
      break;
    }
    if (within) rows.push_back(cells_of(line));
    if (line.starts_with(head)) within = true;
  }
  return rows;
}

/// The fields of an API according to docs/api/fields.md.
struct Documented {
  Names taken;
  Names refused;
};

Names fields_in(const std::string& cell) {  // e.g. of `"seed": 7`, `"stop": ["x"]`
  Names names;
  for (std::size_t at = cell.find("`\""); at != std::string::npos;) {
    names.insert(cell.substr(at + 2, cell.find('"', at + 2) - at - 2));
    at = cell.find("`\"", cell.find('`', at + 1) + 1);
  }
  return names;
}

Documented documented(const ReadApi& api) {
  Documented told;
  const std::vector<std::string> columns = {"",       "chat",     "completions", "llama",
                                            "Ollama", "Messages", "Responses"};
  const std::string column_name = api.in_options ? "Ollama" : api.name;
  const auto column =
      static_cast<std::size_t>(std::find(columns.begin(), columns.end(), column_name) - columns.begin());
  for (const auto& row : rows_below("| field, with a value |")) {
    if (column >= columns.size()) break;
    const std::string& cell = row.at(column);
    if (cell == (api.in_options ? "options" : "yes")) told.taken.merge(fields_in(row[0]));
    if (cell == "no") told.refused.merge(fields_in(row[0]));
  }
  for (const auto& row : rows_below("| API | its further fields |")) {
    const bool of_all = row[0].starts_with("all six") && column < columns.size() && api.name != "Ollama";
    if (row[0] != api.name && !of_all) continue;
    for (std::size_t at = row[1].find('`'); at != std::string::npos;) {
      const std::size_t end = row[1].find('`', at + 1);
      told.taken.insert(row[1].substr(at + 1, end - at - 1));
      at = row[1].find('`', end + 1);
    }
  }
  return told;
}

Names all_names() {
  Names names;
  for (const ReadApi& api : read_apis()) {
    const Documented told = documented(api);
    for (const Names& more : {looked_up(api), told.taken, told.refused})
      names.insert(more.begin(), more.end());
  }
  for (const FieldRule& rule : field_rules()) {
    if (!is_nested(rule.name)) names.insert(std::string(rule.name));
  }
  return names;
}

TEST(FieldRules, EveryFieldIsReadRefusedReportedOrIgnored) {
  const Names names = all_names();
  ASSERT_GE(names.size(), 150u);
  for (const ReadApi& api : read_apis()) {
    for (const std::string& name : names) {
      const Outcome outcome = read_with(api, "\"" + name + R"(":{"x":1})");
      const std::string what =
          api.path + " " + name + (outcome.refusal ? ": " + outcome.refusal->message : "");
      const std::string path = (api.in_options ? "options." : "") + name;
      const FieldRule* rule = rule_of(name);
      if (api.in_options && (name == "model" || name == "stream" || name == "reprise")) {
        EXPECT_TRUE(outcome.refusal || outcome.unknown.count(path) != 0) << what;
      } else if (looked_up(api).count(name) != 0) {
        if (outcome.refusal) {
          EXPECT_NE(outcome.refusal->message.find(name), std::string::npos) << what;
        }
        if (!api.path.ends_with("/compact")) {  // a summary reads constraints, and reports them as unused
          EXPECT_EQ(outcome.unknown.count(path), 0u) << what;
        }
      } else if (rule != nullptr && rule->fate == Fate::kRefused) {
        ASSERT_TRUE(outcome.refusal) << what;
        EXPECT_EQ(protocol::shown(*outcome.refusal).status, 400) << what;
        EXPECT_EQ(protocol::shown(*outcome.refusal).code, "unsupported_parameter") << what;
        EXPECT_EQ(protocol::shown(*outcome.refusal).param, path) << what;
        EXPECT_NE(outcome.refusal->message.find(rule->note), std::string::npos) << what;
      } else {
        EXPECT_FALSE(outcome.refusal) << what;
        const bool is_ignored = rule != nullptr && rule->fate == Fate::kIgnored;
        EXPECT_EQ(outcome.unknown, is_ignored ? Names{} : Names{path}) << what;
      }
    }
  }
}

TEST(FieldRules, PageNamesTheFieldsThatAreRead) {
  for (const char* name :
       {"chat", "completions", "llama", "Ollama", "options", "Messages", "Responses", "embeddings"}) {
    const ReadApi& api = api_named(name);
    const Documented told = documented(api);
    ASSERT_GE(told.taken.size(), 7u) << name << ": the tables were not found";
    for (const std::string& field : told.taken) {
      EXPECT_EQ(looked_up(api).count(field), 1u) << name << " does not read " << field;
    }
    for (const std::string& field : looked_up(api)) {
      const bool is_refused =
          told.refused.count(field) != 0 || (api.name == "embeddings" && (field == "n" || field == "stream"));
      EXPECT_TRUE(is_refused || told.taken.count(field) != 0) << name << " reads " << field;
    }
  }
}

TEST(FieldRules, PageHasTheRules) {
  struct Row {
    Fate fate;
    std::string_view note;
    std::string names;
  };
  std::vector<Row> rows;
  Names known;
  for (const FieldRule& rule : field_rules()) {
    EXPECT_TRUE(known.insert(std::string(rule.name)).second) << rule.name << " has two rules";
    std::string cell = "`" + std::string(rule.name) + "`";
    if (!rule.neutral.empty()) cell += " (`" + std::string(rule.neutral) + "`)";
    if (!rows.empty() && rows.back().fate == rule.fate && rows.back().note == rule.note) {
      rows.back().names += ", " + cell;
    } else {
      rows.push_back({rule.fate, rule.note, cell});
    }
  }
  std::string wanted;  // one table per fate
  for (const auto& [fate, head] : {std::pair(Fate::kRefused, "| refused | instead, or why |"),
                                   std::pair(Fate::kReported, "| reported | instead, or why |"),
                                   std::pair(Fate::kIgnored, "| ignored | why |")}) {
    wanted += std::string(head) + "\n|---|---|\n";
    for (const Row& row : rows) {
      if (row.fate == fate) wanted += "| " + row.names + " | " + std::string(row.note) + " |\n";
    }
    wanted += "\n";
  }
  std::string page;
  for (const std::string& line : lines_of_page()) page += line + "\n";
  const std::size_t begin = page.find("| refused |");
  ASSERT_NE(begin, std::string::npos) << "the tables were not found";
  EXPECT_EQ(page.substr(begin, wanted.size()), wanted) << "docs/api/fields.md should have:\n" << wanted;
}

TEST(FieldRules, NeutralValuesAskForNothing) {
  for (const FieldRule& rule : field_rules()) {
    if (is_nested(rule.name)) continue;
    const auto api = std::find_if(read_apis().begin(), read_apis().end(), [&](const ReadApi& one) {
      return looked_up(one).count(std::string(rule.name)) == 0;
    });
    ASSERT_NE(api, read_apis().end()) << rule.name;
    std::istringstream values{std::string(rule.neutral) + " null"};
    for (std::string value; values >> value;) {
      const Outcome outcome = read_with(*api, "\"" + std::string(rule.name) + "\":" + value);
      EXPECT_FALSE(outcome.refusal) << rule.name << ' ' << value;
      EXPECT_TRUE(outcome.unknown.empty()) << rule.name << ' ' << value;
    }
  }
  EXPECT_TRUE(read_with(api_named("chat"), R"("dynatemp_range":0.0)").unknown.empty());
  EXPECT_TRUE(read_with(api_named("chat"), R"("dynatemp_range":0.5)").refusal);
}

TEST(FieldRules, ObjectsWithinBodiesAreLookedAt) {
  struct Case {
    const char* api;
    const char* member;
    Names unknown;
  };
  const Case cases[] = {
      {"chat",
       R"("stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false,"x":1})",
       {"stream_options.x"}},
      {"chat", R"("reasoning":{"effort":"low","summary":"auto"})", {"reasoning.summary"}},
      {"chat",
       R"("response_format":{"type":"json_schema","x":1,"json_schema":{"name":"a","strict":true,"y":1,"schema":{}}})",
       {"response_format.x", "response_format.json_schema.y"}},
      {"chat",
       R"("structured_outputs":{"regex":"a","disable_fallback":true})",
       {"structured_outputs.disable_fallback"}},
      {"chat", R"("reprise":{"explain":true,"timelin":true})", {"reprise.timelin"}},
      {"chat", R"("chat_template_kwargs":{"anything":1})", {}},
      {"chat", R"("tools":[{"type":"function","function":{"name":"f","anything":1}}])", {}},
      {"Messages",
       R"("thinking":{"type":"enabled","budget_tokens":64,"display":"none"})",
       {"thinking.display"}},
      {"Messages", R"("output_config":{"effort":"low","task_budget":{}})", {"output_config.task_budget"}},
      {"Messages",
       R"("tools":[{"name":"f","input_schema":{},"cache_control":{"type":"ephemeral","scope":"org"}},)"
       R"({"name":"g","input_schema":{},"defer_loading":true},{"name":"h","input_schema":{},"defer_loading":true}])",
       {"tools[].defer_loading", "tools[].cache_control.scope"}},
      {"Messages", R"("context_management":{"edits":[]})", {"context_management"}},
      {"Responses",
       R"("text":{"verbosity":"low","format":{"type":"text","z":1}})",
       {"text.verbosity", "text.format.z"}},
      {"Responses",
       R"("text":{"verbosity":"medium"},"include":["reasoning.encrypted_content","x"])",
       {"include: x"}},
      {"Responses",
       R"("tools":[{"type":"web_search"},{"type":"function","name":"f","defer_loading":true}])",
       {"tools[].defer_loading", "tools[]: web_search"}},
      {"options", R"("temprature":1,"stream":true,"user":"u")", {"options.temprature", "options.stream"}},
  };
  for (const Case& one : cases) {
    const Outcome outcome = read_with(api_named(one.api), one.member);
    EXPECT_FALSE(outcome.refusal) << one.member << outcome.refusal->message;
    EXPECT_EQ(outcome.unknown, one.unknown) << one.member;
  }
}

TEST(FieldRules, OfSeveralNamesForOneThingOneCounts) {
  EXPECT_EQ(read_with(api_named("chat"), R"("thinking_token_budget":64,"thinking_budget":32)").unknown,
            Names{"thinking_budget"});
  EXPECT_EQ(read_with(api_named("chat"), R"("repetition_penalty":1.1,"repeat_penalty":1.2)").unknown,
            Names{"repeat_penalty"});
  EXPECT_TRUE(
      read_with(api_named("llama"), R"("dry_multiplier":0,"dry_sequence_breakers":["x"])").unknown.empty());
}

TEST(FieldRules, ManyMembersAreRememberedAsFewAre) {
  std::string members = R"("temperature":0.5)";
  for (int i = 0; i < 40; ++i) members += ",\"x" + std::to_string(i) + "\":null";
  EXPECT_TRUE(read_with(api_named("chat"), members).unknown.empty());
  EXPECT_EQ(read_with(api_named("chat"), members + R"(,"temprature":1)").unknown, Names{"temprature"});
}

TEST(FieldRules, EveryKindOfAnswerReports) {
  Served served;
  HttpClient client(served.port());
  for (const ReadApi& api : read_apis()) {
    if (api.path.ends_with("/control")) continue;  // there is no such reply
    const std::string stream = api.path.starts_with("/api/") ? R"(,"stream":false)" : "";
    const ClientResponse response = client.post(
        api.path, api.base + (api.path == "/api/show" ? "" : stream) + R"(,"temprature":1,"user":"u"})");
    EXPECT_EQ(response.status, 200) << api.path << response.body;
    const Json body = parsed(response.body);
    const Json* own = body.is_object() ? body.find_object("reprise") : nullptr;
    const Json* names = own == nullptr ? nullptr : own->find("unknown_fields");
    ASSERT_NE(names, nullptr) << api.path << response.body;
    EXPECT_EQ(names->dump(), R"(["temprature"])") << api.path;
  }
  // Ollama's answer to a request without a prompt.
  const ClientResponse loaded = client.post("/api/generate", R"({"model":"fake","temprature":1})");
  EXPECT_NE(loaded.body.find(R"("unknown_fields":["temprature"])"), std::string::npos) << loaded.body;
}

TEST(FieldRules, AReportIsAddedToAnyObject) {
  const auto with_report = [](std::string object) {
    append_unknown_fields({"a"}, object);
    return object;
  };
  EXPECT_EQ(with_report("{}"), R"({"reprise":{"unknown_fields":["a"]}})");
  EXPECT_EQ(with_report("{\"b\":{}}\n"), "{\"b\":{},\"reprise\":{\"unknown_fields\":[\"a\"]}}\n");
  std::string same = "{}";
  append_unknown_fields({}, same);
  EXPECT_EQ(same, "{}");
}

}  // namespace
}  // namespace reprise::protocol
