#include "tools/reprise/serve_command.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "protocol/http/log.h"
#include "tools/reprise/engine_flags.h"
#include "tools/reprise/serve_help.h"

namespace reprise::tools {

ServeCommand::ServeCommand(CLI::App& app)
    : command_(app.add_subcommand("serve", "Run the HTTP server until SIGINT, SIGTERM or SIGHUP")),
      settings_(serve_settings(config_)) {
  command_->formatter(std::make_shared<ServeFormatter>());
  command_->set_help_all_flag("--help-all", "Explain all options");
  command_->footer(
      "Every option is also a setting of the file that --config names, and a variable: --port is http.port "
      "and REPRISE_HTTP_PORT. --print-config lists them all. REPRISE_API_KEYS holds keys.");
  const auto common = [](CLI::Option* option) { return option->group(kCommonGroup); };
  common(command_->add_option("--model,-m", model_,
                              "Model to serve: a Hugging Face folder, a GGUF file, or hf:OWNER/MODEL[:FILE]; "
                              "default: the built-in model"))
      ->type_name("MODEL")
      ->envname("REPRISE_MODEL");
  common(command_->add_option(
             "--model-name,--alias,-a", model_name_,
             "Name of the model in requests, instead of the file's; separate several by commas"))
      ->type_name("NAMES");
  command_->add_option("--tags", tags_, "Labels of the model for people, separated by commas")
      ->type_name("WORDS");
  common(command_->add_option("--config", file_, "TOML file with settings"))
      ->type_name("FILE")
      ->envname("REPRISE_CONFIG");
  common(command_->add_flag("--print-config", print_,
                            "Print all settings with explanations, in the form of that file, and exit"));
  for (const Setting& setting : settings_) {
    const std::string names = setting.flag + setting.further_flags;
    CLI::Option* option = nullptr;
    if (setting.kind == Setting::Kind::kSwitch) {
      const bool turns_off = setting.flag_value == "false";
      option = command_->add_flag_callback(
          names, [this, &setting] { texts_[setting.key] = setting.flag_value; },
          turns_off ? "Turn off: " + setting.help : setting.help);
    } else {
      option = command_->add_option_function<std::string>(
          names, [this, &setting](const std::string& text) { texts_[setting.key] = text; },
          setting.description());
      option->type_name(setting.value);
      if (const std::string shown = setting.show(); shown != "\"\"" && shown != "[]")
        option->default_str(shown);
    }
    option->group(setting.common ? kCommonGroup : setting.group);
  }
  for (const RemovedSetting& removed : removed_settings()) add_removed(removed);
}

// Help and manual do not show options without a group, and nothing suggests them.
void ServeCommand::add_removed(const RemovedSetting& removed) {
  std::istringstream flags{std::string(removed.flags)};
  for (std::string flag; std::getline(flags, flag, ',');) {
    const auto warn = [this, &removed, flag] { config_.warnings.push_back(removed.warning(flag)); };
    CLI::Option* option = removed.has_value ? command_->add_option_function<std::string>(
                                                  flag, [warn](const std::string&) { warn(); })
                                            : command_->add_flag_callback(flag, warn);
    option->group("");
  }
}

void ServeCommand::resolve() {
  bool reasoning_known = false;
  if (!file_.empty()) load_config_file(config_, file_);
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  load_config_environment(config_, environment);
  for (const Setting& setting : settings_) {
    if (const auto given = texts_.find(setting.key); given != texts_.end()) {
      set_from_flag(setting, given->second);
    }
  }
  if (!model_.empty()) config_.models = {model_at(model_)};
  if (!model_name_.empty()) {
    if (config_.models.size() != 1) throw UsageError("--model-name: goes with one model");
    take_names(config_.models[0], model_name_);
  }
  if (!tags_.empty()) {
    if (config_.models.size() != 1) throw UsageError("--tags: goes with one model");
    std::istringstream words(tags_);
    for (std::string word; std::getline(words, word, ',');) config_.models[0].tags.push_back(word);
  }
  for (const char* known : {"template", "on", "off", "auto"})
    reasoning_known = reasoning_known || config_.reasoning == known;
  if (!reasoning_known) {
    throw UsageError("chat.reasoning: '" + config_.reasoning + "' is not one of on, auto, off, template");
  }
  if (config_.log_format != "text" && config_.log_format != "json") {
    throw UsageError("log.format: '" + config_.log_format + "' is not one of text, json");
  }
  if (!protocol::log_level_named(config_.log_level)) {
    throw UsageError("log.level: '" + config_.log_level + "' is not one of debug, info, warning, error, off");
  }
}

int ServeCommand::run(const ServiceFactory& make_service) {
  resolve();
  if (print_) {
    std::fputs(print_config(config_).c_str(), stdout);
    for (const std::string& warning : config_.warnings)
      std::fprintf(stderr, "reprise: %s\n", warning.c_str());
    return 0;
  }
  check_device(config_.engine.device);
  std::vector<std::string> devices;
  for (const ModelTable& model : config_.models) {
    if (!model.device.empty()) check_device(model.device);
    devices.push_back(model.device.empty() ? config_.engine.device : model.device);
  }
  if (devices.empty()) devices.push_back(config_.engine.device);
  check_cpu_experts(config_.engine, devices);
  static_cast<void>(compute_options(config_.engine));
  load_keys(config_, std::getenv("REPRISE_API_KEYS"));
  return serve(config_, make_service);
}

}  // namespace reprise::tools
