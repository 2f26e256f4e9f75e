#include "tools/lab/workload_clients.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace reprise::tools {
namespace {

using protocol::ChatPrompt;

constexpr std::uint32_t kSystemTokens = 200;
constexpr std::uint32_t kMessageTokens = 24;
constexpr std::uint32_t kDocumentTokens = 1000;
constexpr std::uint32_t kDocuments = 5;
constexpr std::uint32_t kDocumentsOfAQuestion = 3;
constexpr std::uint32_t kResultTokens = 32;

Json said(const char* role, std::string content) {
  return Json{{"role", role}, {"content", std::move(content)}};
}

std::uint32_t scaled(std::uint32_t count, double scale, std::uint32_t least) {
  return std::max(least, static_cast<std::uint32_t>(std::lround(count * scale)));
}

/// Somebody who talks for some turns.
class ChatUser : public WorkloadClient {
 public:
  ChatUser(const ChatWorld& world, const std::string& system, std::uint32_t turns, std::uint32_t seed)
      : world_(world), turns_(turns), seed_(seed) {
    chat_.messages = Json::array();
    chat_.messages.push_back(said("system", system));
  }
  bool done() const override { return turns_ == 0; }
  WorkloadRequest next() override {
    chat_.messages.push_back(said("user", world_.words(kMessageTokens, seed_++)));
    return {.chat = chat_};
  }
  void answered(const BenchAnswer& answer) override {
    chat_.messages.push_back(world_.message_of(chat_, answer));
    --turns_;
  }

 private:
  const ChatWorld& world_;
  ChatPrompt chat_;
  std::uint32_t turns_;
  std::uint32_t seed_;
};

/// Questions about documents: which of them, and in what order, is another each time.
class RagUser : public WorkloadClient {
 public:
  RagUser(const ChatWorld& world, std::uint32_t questions, std::uint32_t seed)
      : world_(world), questions_(questions), random_(seed) {
    for (std::uint32_t i = 0; i < kDocuments; ++i) {
      documents_.push_back("Document " + std::to_string(i + 1) + ": " +
                           world.words(kDocumentTokens, seed * 100 + i));
    }
  }
  bool done() const override { return questions_ == 0; }
  WorkloadRequest next() override {
    std::vector<std::uint32_t> order(kDocuments);
    for (std::uint32_t i = 0; i < kDocuments; ++i) order[i] = i;
    for (std::uint32_t i = 0; i < kDocumentsOfAQuestion; ++i)
      std::swap(order[i], order[i + random_() % (kDocuments - i)]);
    WorkloadRequest request;
    std::string text;
    for (std::uint32_t i = 0; i < kDocumentsOfAQuestion; ++i) {
      text += documents_[order[i]] + "\n\n";
      if (!seen_.insert(order[i]).second) request.movable_tokens += kDocumentTokens;
    }
    text += world_.words(kMessageTokens, static_cast<std::uint32_t>(random_()));
    request.chat.messages = Json::array();
    request.chat.messages.push_back(said("system", "Answer from the documents."));
    request.chat.messages.push_back(said("user", text));
    return request;
  }
  void answered(const BenchAnswer&) override { --questions_; }

 private:
  const ChatWorld& world_;
  std::uint32_t questions_;
  std::mt19937 random_;
  std::vector<std::string> documents_;
  std::set<std::uint32_t> seen_;
};

/// One instruction, many inputs.
class BatchJob : public WorkloadClient {
 public:
  BatchJob(const ChatWorld& world, std::uint32_t instruction, std::uint32_t inputs, std::uint32_t seed)
      : world_(world), instruction_(world.words(instruction, seed)), inputs_(inputs), seed_(seed) {}
  bool done() const override { return inputs_ == 0; }
  WorkloadRequest next() override {
    WorkloadRequest request{.reply_tokens = 4, .up_to_border = true};
    request.chat.messages = Json::array();
    request.chat.messages.push_back(said("system", instruction_));
    request.chat.messages.push_back(said("user", world_.words(kMessageTokens, ++seed_ + 10'000)));
    return request;
  }
  void answered(const BenchAnswer&) override { --inputs_; }

 private:
  const ChatWorld& world_;
  const std::string instruction_;
  std::uint32_t inputs_;
  std::uint32_t seed_;
};

Json some_tools() {
  Json tools = Json::array();
  for (const char* name : {"read_file", "write_file", "list_folder", "run_command"}) {
    Json path{{"type", "string"}, {"description", "Where, from the root of the project"}};
    Json parameters{{"type", "object"}, {"properties", Json{{"path", std::move(path)}}}};
    tools.push_back(Json{
        {"type", "function"},
        {"function",
         Json{{"name", name}, {"description", "One of the tools"}, {"parameters", std::move(parameters)}}}});
  }
  return tools;
}

/// A task, and so many steps with a tool's result each; after every tenth step the last two are taken back, and the
/// agent goes on from there with another result.
class AgentRun : public WorkloadClient {
 public:
  AgentRun(const ChatWorld& world, const std::string& system, std::uint32_t steps, std::uint32_t seed)
      : world_(world), steps_(steps), seed_(seed) {
    chat_.messages = Json::array();
    chat_.messages.push_back(said("system", system));
    chat_.messages.push_back(said("user", world.words(2 * kMessageTokens, seed_++)));
    chat_.tools = some_tools();
  }
  bool done() const override { return taken_ >= steps_; }
  WorkloadRequest next() override { return {.chat = chat_}; }
  void answered(const BenchAnswer& answer) override {
    ++taken_;
    chat_.messages.push_back(world_.message_of(chat_, answer));
    if (taken_ % 10 == 0) {
      auto& messages = chat_.messages.as_array();
      messages.resize(messages.size() -
                      3);  // this reply, the result before it, and the step that asked for it
    }
    Json result = said("tool", world_.words(kResultTokens, seed_++));
    result["tool_call_id"] = "call_" + std::to_string(taken_);
    chat_.messages.push_back(std::move(result));
  }

 private:
  const ChatWorld& world_;
  ChatPrompt chat_;
  std::uint32_t steps_;
  std::uint32_t taken_ = 0;
  std::uint32_t seed_;
};

void add_chat(WorkloadClients& clients, const ChatWorld& world, std::uint32_t seed, double scale) {
  const std::string system = world.words(kSystemTokens, seed);
  std::mt19937 random(seed);
  for (std::uint32_t i = 0; i < scaled(24, scale, 2); ++i) {
    clients.push_back(std::make_unique<ChatUser>(world, system, 2 + random() % 9, seed + 1000 * (i + 1)));
  }
}

void add_rag(WorkloadClients& clients, const ChatWorld& world, std::uint32_t seed, double scale) {
  clients.push_back(std::make_unique<RagUser>(world, scaled(60, scale, 8), seed));
}

void add_batch(WorkloadClients& clients, const ChatWorld& world, std::uint32_t seed, double scale) {
  for (const std::uint32_t instruction : {50U, 1024U}) {
    clients.push_back(
        std::make_unique<BatchJob>(world, instruction, scaled(100, scale, 8), seed + instruction));
  }
}

void add_agent(WorkloadClients& clients, const ChatWorld& world, std::uint32_t seed, double scale) {
  const std::string system = world.words(kSystemTokens, seed + 7);
  clients.push_back(std::make_unique<AgentRun>(world, system, scaled(30, scale, 4), seed + 1));
  for (std::uint32_t i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<AgentRun>(world, system, scaled(6, scale, 3), seed + 100 * (i + 1)));
  }
}

}  // namespace

WorkloadClients workload_clients(const std::string& name, const ChatWorld& world, std::uint64_t seed,
                                 double scale) {
  WorkloadClients clients;
  const auto begin = static_cast<std::uint32_t>(seed * 1'000'003);
  const bool all = name == "mixed";
  if (all || name == "chat") add_chat(clients, world, begin + 1, scale);
  if (all || name == "rag") add_rag(clients, world, begin + 2, scale);
  if (all || name == "batch") add_batch(clients, world, begin + 3, scale);
  if (all || name == "agent") add_agent(clients, world, begin + 4, scale);
  return clients;
}

}  // namespace reprise::tools
