// Which key sets which field, in what range, and what it means.
#include "peer/config/config_settings.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "peer/config/algorithms.hpp"
#include "peer/config/setting_builders.hpp"

namespace gv {

namespace {

using namespace settings;

// ---- Which settings count when ----

bool is_generated(const Config& c) { return c.data.kind == DataKind::generated; }
bool is_from_files(const Config& c) { return !is_generated(c); }
bool is_text(const Config& c) { return c.data.kind == DataKind::text; }
bool is_of_numbers(const Config& c) { return !is_text(c); }
bool is_transformer(const Config& c) { return c.model.kind == ModelKind::transformer; }

bool has_momentum(const Config& c) {
  const OptimizerKind kind = c.train.optimizer.kind;
  return kind == OptimizerKind::momentum || kind == OptimizerKind::nesterov ||
         kind == OptimizerKind::lars;
}

bool is_lars(const Config& c) { return c.train.optimizer.kind == OptimizerKind::lars; }

bool is_adam(const Config& c) {
  const OptimizerKind kind = c.train.optimizer.kind;
  return kind == OptimizerKind::adam || kind == OptimizerKind::adamw || kind == OptimizerKind::lamb;
}

bool is_rmsprop(const Config& c) { return c.train.optimizer.kind == OptimizerKind::rmsprop; }

bool is_adaptive(const Config& c) {
  return is_adam(c) || is_rmsprop(c) || is_lars(c) ||
         c.train.optimizer.kind == OptimizerKind::adagrad;
}

bool is_stepped(const Config& c) { return c.train.schedule.kind == ScheduleKind::step; }

bool has_degree(const Config& c) {
  const TopologyKind kind = c.gossip.topology.kind;
  if (c.run.mode != ModeKind::gossip) return false;
  return kind == TopologyKind::random_regular || kind == TopologyKind::base_k;
}

bool makes_local_steps(const Config& c) {
  return c.run.mode == ModeKind::allreduce && c.allreduce.local.period > 1;
}

bool has_outer_momentum(const Config& c) {
  return c.run.mode == ModeKind::allreduce && c.allreduce.local.has_momentum();
}

bool sends_few_values(const Config& c) {
  return c.run.mode == ModeKind::allreduce && c.allreduce.top_k_per_512 > 0;
}

bool makes_rounds(const Config& c) { return c.run.mode == ModeKind::mixing; }
/// By the choices of [mixing] that stages have as well.
bool mixes(const Config& c) { return makes_rounds(c) || mixes_stages(c); }

/// Of an enumeration whose values have names.
template <class Kinds>
auto named_choices(const Kinds& kinds) {
  std::vector<std::pair<std::string, typename Kinds::value_type>> choices;
  for (const auto kind : kinds) choices.emplace_back(to_string(kind), kind);
  return choices;
}

// ---- The table, a function for each section ----

using Settings = std::vector<Setting<Config>>;

void append_run(Settings& all) {
  const Section<Config> run{"run"};
  all.push_back(agreed(run.whole("seed", GV_FIELD(run.seed), {0},
                                 "fixes the first model, the order of samples and the pairing")));
  all.push_back(run.whole("peers", GV_FIELD(run.peers), {1, 4096},
                          "shards the training data is cut into, one for each peer"));
  all.push_back(only_with(
      "run.steps", "steps = 0 (or no steps at all)",
      [](const Config& c) { return c.run.steps == 0; },
      run.number(
          "epochs", GV_FIELD(run.epochs), {0, 100000, true},
          "passes of a peer over its own shard; in a pipeline a pass is as many samples as the "
          "training data have")));
  all.push_back(
      run.whole("steps", GV_FIELD(run.steps), {0, 1e12},
                "local steps of each peer, or runs of a pipeline, instead of epochs; 0 = by "
                "epochs"));
  all.push_back(agreed(run.choice<>(
      "mode", GV_FIELD(run.mode),
      std::vector<std::pair<std::string, ModeKind>>{{"gossip", ModeKind::gossip},
                                                    {"allreduce", ModeKind::allreduce},
                                                    {"pipeline", ModeKind::pipeline},
                                                    {"mixing", ModeKind::mixing}},
      "each at its own pace with a partner now and then, all in lockstep, each with a part of the "
      "model, or in rounds of mixing with neighbours")));
  std::vector<std::pair<std::string, std::string>> algorithms = {{"", ""}};
  for (const NamedAlgorithm& known : named_algorithms()) {
    algorithms.emplace_back(known.name, known.name);
  }
  Setting<Config> algorithm =
      run.choice<>("algorithm", GV_FIELD(run.algorithm), std::move(algorithms),
                   "begin with the settings of this one, `grapevine algorithms` lists them; keys "
                   "that are written here replace its own");
  algorithm.type = "a name from the list, as \"choco\"";
  all.push_back(std::move(algorithm));
  all.push_back(run.whole("wait_for_peers", GV_FIELD(run.wait_for_peers), {1, 4096},
                          "training starts when this many are there, itself included"));
  all.push_back(
      run.duration("wait_max_s", GV_FIELD(run.wait_max), {0, 86400}, "or after this long"));
  all.push_back(run.duration("linger_s", GV_FIELD(run.linger), {0, 86400},
                             "how long a peer that is done serves slower ones"));
  all.push_back(run.text("folder", GV_FIELD(run.folder),
                         "where events, metrics and checkpoints go, below the current folder"));
}

void append_data(Settings& all) {
  const Section<Config> data{"data"};
  constexpr std::string_view from_files = "kind = \"idx\", \"cifar10\", \"csv\" or \"text\"";
  constexpr std::string_view of_numbers = "a kind other than \"text\"";
  all.push_back(agreed(data.choice<>(
      "kind", GV_FIELD(data.kind),
      std::vector<std::pair<std::string, DataKind>>{{"generated", DataKind::generated},
                                                    {"idx", DataKind::idx},
                                                    {"cifar10", DataKind::cifar10},
                                                    {"csv", DataKind::csv},
                                                    {"text", DataKind::text}},
      "the built-in task, or the format of the files")));
  all.push_back(only_with("data.kind", from_files, is_from_files,
                          data.text("folder", GV_FIELD(data.folder),
                                    "where the files are; a relative path starts at this file")));
  all.push_back(only_with("data.kind", from_files, is_from_files,
                          data.texts("train_files", GV_FIELD(data.train_files),
                                     "training files in the folder; idx: images then labels")));
  all.push_back(
      only_with("data.kind", from_files, is_from_files,
                data.texts("test_files", GV_FIELD(data.test_files),
                           "test files in the folder; idx: images then labels; text: without "
                           "any, the last tenth of each training file")));
  all.push_back(only_with(
      "data.kind", "kind = \"csv\"", [](const Config& c) { return c.data.kind == DataKind::csv; },
      data.whole("csv_targets", GV_FIELD(data.csv_targets), {0, 65536},
                 "last columns that are targets; 0 = the last is a label")));
  all.push_back(agreed(only_with("data.kind", "kind = \"text\"", is_text,
                                 data.whole("context", GV_FIELD(data.context), {1, 65536},
                                            "bytes in a sample: the model sees so many at most"))));
  all.push_back(agreed(
      only_with("data.kind", of_numbers, is_of_numbers,
                data.number("mean", GV_FIELD(data.mean), {-1e9, 1e9},
                            "subtracted from every input; bytes are first divided by 255"))));
  all.push_back(agreed(only_with("data.kind", of_numbers, is_of_numbers,
                                 data.number("deviation", GV_FIELD(data.deviation), {0, 1e9, true},
                                             "what every input is divided by after that"))));
  all.push_back(data.choice<>(
      "partition", GV_FIELD(data.partition.kind),
      std::vector<std::pair<std::string, PartitionKind>>{{"iid", PartitionKind::iid},
                                                         {"dirichlet", PartitionKind::dirichlet},
                                                         {"by_label", PartitionKind::by_label},
                                                         {"shared", PartitionKind::shared}},
      "how the samples are dealt out; shared = everybody has all"));
  all.push_back(only_with(
      "data.partition", "partition = \"dirichlet\"",
      [](const Config& c) { return c.data.partition.kind == PartitionKind::dirichlet; },
      data.number("concentration", GV_FIELD(data.partition.alpha), {0, 1e6, true},
                  "alpha of the Dirichlet draw; small makes unlike shards")));
  all.push_back(only_with(
      "data.partition", "partition = \"by_label\"",
      [](const Config& c) { return c.data.partition.kind == PartitionKind::by_label; },
      data.whole("labels_per_peer", GV_FIELD(data.partition.labels_per_peer), {1, 65536},
                 "how many different labels one peer sees")));
}

void append_generated(Settings& all) {
  const Section<Config> generated{"data.generated"};
  const auto add = [&all](Setting<Config> setting) {
    all.push_back(agreed(
        only_with("data.kind", "data.kind = \"generated\"", is_generated, std::move(setting))));
  };
  add(generated.whole("samples", GV_FIELD(data.generated.samples), {1, 1e8},
                      "training samples in all"));
  add(generated.whole("test_samples", GV_FIELD(data.generated.test_samples), {1, 1e8},
                      "test samples"));
  add(generated.whole("features", GV_FIELD(data.generated.features), {1, 65536},
                      "numbers in one sample"));
  add(generated.whole("classes", GV_FIELD(data.generated.classes), {2, 65536}, "different labels"));
  add(generated.number("noise", GV_FIELD(data.generated.noise), {0, 1000},
                       "spread of a class around its centre; more is harder"));
}

void append_model(Settings& all) {
  const Section<Config> model{"model"};
  all.push_back(agreed(model.choice<>(
      "kind", GV_FIELD(model.kind),
      std::vector<std::pair<std::string, ModelKind>>{{"linear", ModelKind::linear},
                                                     {"mlp", ModelKind::mlp},
                                                     {"lenet", ModelKind::lenet},
                                                     {"cnn", ModelKind::cnn},
                                                     {"transformer", ModelKind::transformer},
                                                     {"layers", ModelKind::layers}},
      "a model known by name, or layers for the list in [[model.layers]]")));
  all.push_back(agreed(only_with(
      "model.kind", "kind = \"mlp\"",
      [](const Config& c) { return c.model.kind == ModelKind::mlp; },
      model.wholes("hidden", GV_FIELD(model.hidden), {1, 1e6},
                   "widths of the hidden layers, first to last"))));
  const auto of_transformer = [&all](Setting<Config> setting) {
    all.push_back(agreed(
        only_with("model.kind", "kind = \"transformer\"", is_transformer, std::move(setting))));
  };
  of_transformer(model.whole("blocks", GV_FIELD(model.transformer.blocks), {1, 1000},
                             "attention and two dense layers each"));
  of_transformer(model.whole("width", GV_FIELD(model.transformer.width), {1, 65536},
                             "numbers that stand for a byte between blocks"));
  of_transformer(model.whole("heads", GV_FIELD(model.transformer.heads), {1, 1024},
                             "attentions side by side in a block; a divisor of the width"));
  of_transformer(model.flag("tied", GV_FIELD(model.transformer.tied),
                            "the output layer uses the embedding's table"));
  all.push_back(agreed(model.choice<>(
      "loss", GV_FIELD(model.loss),
      std::vector<std::pair<std::string, LossKind>>{{"cross_entropy", LossKind::cross_entropy},
                                                    {"squared", LossKind::squared}},
      "what training makes small")));
}

void append_train(Settings& all) {
  const Section<Config> train{"train"};
  all.push_back(train.whole("batch", GV_FIELD(train.batch), {1, 65536},
                            "samples in one step; in a pipeline those of a micro-batch"));
  all.push_back(train.whole("threads", GV_FIELD(train.threads), {1, 64},
                            "threads of a peer that step on its one model at once, without locks; "
                            "more than 1 only with optimizer = \"sgd\" in gossip"));
  all.push_back(train.choice<>(
      "optimizer", GV_FIELD(train.optimizer.kind),
      std::vector<std::pair<std::string, OptimizerKind>>{{"sgd", OptimizerKind::sgd},
                                                         {"momentum", OptimizerKind::momentum},
                                                         {"nesterov", OptimizerKind::nesterov},
                                                         {"adagrad", OptimizerKind::adagrad},
                                                         {"rmsprop", OptimizerKind::rmsprop},
                                                         {"adam", OptimizerKind::adam},
                                                         {"adamw", OptimizerKind::adamw},
                                                         {"lars", OptimizerKind::lars},
                                                         {"lamb", OptimizerKind::lamb}},
      "how gradients become steps; its state stays with the peer"));
  const auto of_optimizer = [&all](std::string_view in_words, bool (*has_effect)(const Config&),
                                   Setting<Config> setting) {
    all.push_back(only_with("train.optimizer", in_words, has_effect, std::move(setting)));
  };
  constexpr settings::Range below_one{0, 0.999999};
  of_optimizer("optimizer = \"momentum\", \"nesterov\" or \"lars\"", has_momentum,
               train.number("momentum", GV_FIELD(train.optimizer.momentum), below_one,
                            "share of the last step's velocity that is kept"));
  of_optimizer("optimizer = \"rmsprop\"", is_rmsprop,
               train.number("decay", GV_FIELD(train.optimizer.decay), below_one,
                            "share of the mean square that is kept"));
  of_optimizer("optimizer = \"adam\", \"adamw\" or \"lamb\"", is_adam,
               train.number("beta1", GV_FIELD(train.optimizer.beta1), below_one,
                            "share of the mean gradient that is kept"));
  of_optimizer("optimizer = \"adam\", \"adamw\" or \"lamb\"", is_adam,
               train.number("beta2", GV_FIELD(train.optimizer.beta2), below_one,
                            "share of the mean square that is kept"));
  of_optimizer("optimizer = \"adagrad\", \"rmsprop\", \"adam\", \"adamw\", \"lars\" or \"lamb\"",
               is_adaptive,
               train.number("epsilon", GV_FIELD(train.optimizer.epsilon), {0, 1, true},
                            "added to the root of the mean square; of lars to a gradient's "
                            "length"));
  of_optimizer("optimizer = \"lars\"", is_lars,
               train.number("trust", GV_FIELD(train.optimizer.trust), {0, 1, true},
                            "a tensor's step over its own length, at a learning rate of 1"));
  all.push_back(
      train.number("weight_decay", GV_FIELD(train.optimizer.weight_decay), {0, 1},
                   "pull of the weights towards zero; decoupled for adamw and lamb only"));
}

void append_schedule(Settings& all) {
  const Section<Config> train{"train"};
  all.push_back(train.number("learning_rate", GV_FIELD(train.schedule.learning_rate),
                             {0, 100, true}, "size of a step, after warm-up"));
  all.push_back(train.choice<>(
      "schedule", GV_FIELD(train.schedule.kind),
      std::vector<std::pair<std::string, ScheduleKind>>{{"constant", ScheduleKind::constant},
                                                        {"step", ScheduleKind::step},
                                                        {"cosine", ScheduleKind::cosine}},
      "how the learning rate changes over the run"));
  all.push_back(train.whole("warmup_steps", GV_FIELD(train.schedule.warmup_steps), {0, 1e9},
                            "steps of a linear ramp up to the learning rate"));
  all.push_back(only_with("train.schedule", "schedule = \"step\"", is_stepped,
                          train.wholes("step_at", GV_FIELD(train.schedule.step_at), {1, 1e12},
                                       "steps at which the rate is multiplied, rising")));
  all.push_back(only_with("train.schedule", "schedule = \"step\"", is_stepped,
                          train.number("step_factor", GV_FIELD(train.schedule.step_factor),
                                       {0, 1, true}, "what it is multiplied by")));
  all.push_back(only_with(
      "train.schedule", "schedule = \"cosine\"",
      [](const Config& c) { return c.train.schedule.kind == ScheduleKind::cosine; },
      train.number("final_fraction", GV_FIELD(train.schedule.final_fraction), {0, 1},
                   "the rate at the last step as a fraction of the highest")));
  all.push_back(
      train.whole("reference_batch", GV_FIELD(train.schedule.reference_batch), {0, 65536},
                  "linear scaling: the batch learning_rate was found for; in lockstep and in a "
                  "pipeline that of all peers together counts; 0 = off"));
}

void append_gossip(Settings& every) {
  const Section<Config> gossip{"gossip"};
  Settings all;
  all.push_back(agreed(
      gossip.choice<>("pairing", GV_FIELD(gossip.pairing),
                      std::vector<std::pair<std::string, PairingKind>>{
                          {"matching", PairingKind::matching}, {"uniform", PairingKind::uniform}},
                      "who meets whom: drawn pairs, or anybody at random")));
  all.push_back(agreed(gossip.choice<>(
      "topology", GV_FIELD(gossip.topology.kind), named_choices(topology_kinds),
      "among whom partners are drawn; complete = all. `grapevine topology` shows each")));
  all.push_back(agreed(gossip.whole("period_steps", GV_FIELD(gossip.period_steps), {1, 1e9},
                                    "local steps between two exchanges")));
  all.push_back(gossip.choice<>(
      "trigger", GV_FIELD(gossip.trigger), named_choices(trigger_kinds),
      "when one begins: after period_steps; after so many in the mean, drawn; when none is under "
      "way; or so often that models stay target_spread apart. Other than steps with uniform "
      "pairs"));
  all.push_back(
      agreed(gossip.number("alpha", GV_FIELD(gossip.alpha), {0, 1},
                           "elastic coefficient: 0.5 averages the pair, 0 is no gossip; above 0.5 "
                           "models can run apart where an exchange takes long")));
  all.push_back(agreed(gossip.choice<>(
      "alpha_schedule", GV_FIELD(gossip.alpha_with_learning_rate),
      std::vector<std::pair<std::string, bool>>{{"constant", false}, {"with_learning_rate", true}},
      "whether the force falls with the learning rate")));
  all.push_back(agreed(gossip.choice<>(
      "codec", GV_FIELD(gossip.exchange.codec),
      std::vector<std::pair<std::string, Codec>>{
          {"identity", Codec::identity}, {"fp16", Codec::fp16}, {"bf16", Codec::bf16}},
      "how numbers travel: 4, 2 or 2 bytes each")));
  all.push_back(gossip.number("clip_radius", GV_FIELD(gossip.exchange.clip_radius), {0, 1e9},
                              "longest difference an exchange believes, longer ones are cut; "
                              "0 = any"));
  all.push_back(gossip.number("clip_factor", GV_FIELD(gossip.exchange.clip_factor), {0, 1e9},
                              "without a radius: cut at so many times the median of recent "
                              "differences; 0 = never"));
  all.push_back(gossip.number("norm_cap", GV_FIELD(gossip.exchange.norm_cap), {0, 1e12},
                              "a model with a norm so many times ours is refused; 0 = any"));
  all.push_back(gossip.duration("answer_deadline_s", GV_FIELD(gossip.exchange.answer_deadline),
                                {0.01, 3600}, "how long an offer waits for its answer"));
  all.push_back(gossip.duration("progress_deadline_s", GV_FIELD(gossip.exchange.progress_deadline),
                                {0.01, 3600}, "longest pause inside an exchange"));
  all.push_back(gossip.duration("quarantine_s", GV_FIELD(gossip.exchange.quarantine), {0, 1e6},
                                "how long a peer that sent unsound models is left alone"));
  all.push_back(gossip.whole("offences_max", GV_FIELD(gossip.exchange.offences_max), {1, 1000},
                             "unsound models before that"));
  all.push_back(gossip.whole("catch_up_periods", GV_FIELD(gossip.catch_up_periods), {1, 1e9},
                             "a peer this far behind on joining or waking fetches a model"));
  for (Setting<Config>& setting : all) {
    every.push_back(only_with(
        "run.mode", "run.mode = \"gossip\"",
        [](const Config& c) { return c.run.mode == ModeKind::gossip; }, std::move(setting)));
  }
  every.push_back(only_with(
      "gossip.trigger", "trigger = \"spread\"",
      [](const Config& c) {
        return c.run.mode == ModeKind::gossip && c.gossip.trigger == TriggerKind::spread;
      },
      gossip.number("target_spread", GV_FIELD(gossip.target_spread), {0, 1e12},
                    "distance that two models that meet should have, as spread in status")));
  every.push_back(agreed(only_with(
      "gossip.topology", "topology = \"random_regular\" or \"base_k\"", has_degree,
      gossip.whole("topology_degree", GV_FIELD(gossip.topology.degree), {0, 4095},
                   "random_regular: neighbours of each peer, 0 = 4; base_k: partners in one round, "
                   "of which pairs allow 1, 0 = 1"))));
}

void append_population(Settings& all) {
  const Section<Config> population{"population"};
  all.push_back(agreed(population.whole(
      "every_steps", GV_FIELD(gossip.population.every_steps), {0, 1e9},
      "local steps between two validations, after each of which one of the worst peers may copy "
      "one of the best; 0 = no population")));
  const auto add = [&all](Setting<Config> setting) {
    all.push_back(only_with(
        "population.every_steps", "every_steps above 0",
        [](const Config& c) { return c.gossip.population.is_on(); }, std::move(setting)));
  };
  add(population.number("held_out", GV_FIELD(gossip.population.held_out), {0, 0.5, true},
                        "part of its own samples that a peer does not train on and is judged by"));
  add(population.number("spread", GV_FIELD(gossip.population.spread), {1, 1000},
                        "learning rates begin up to so many times above or below "
                        "train.learning_rate, drawn for each peer; so does 1 - momentum"));
}

void append_ring(Settings& all) {
  const Section<Config> allreduce{"allreduce"};
  const auto add = [&all](Setting<Config> setting) {
    all.push_back(agreed(only_with(
        "run.mode", "run.mode = \"allreduce\"",
        [](const Config& c) { return c.run.mode == ModeKind::allreduce; }, std::move(setting))));
  };
  using Algorithm = std::optional<ReduceAlgorithm>;
  add(allreduce.choice<>("algorithm", GV_FIELD(allreduce.algorithm),
                         std::vector<std::pair<std::string, Algorithm>>{
                             {"auto", Algorithm{}},
                             {"ring", ReduceAlgorithm::ring},
                             {"halving_doubling", ReduceAlgorithm::halving_doubling},
                             {"tree", ReduceAlgorithm::tree},
                             {"direct", ReduceAlgorithm::direct}},
                         "how gradients are summed; auto: what is predicted to be the fastest"));
  add(allreduce.choice<>(
      "codec", GV_FIELD(allreduce.codec),
      std::vector<std::pair<std::string, ValueCodec>>{{"identity", ValueCodec::identity},
                                                      {"fp16", ValueCodec::fp16},
                                                      {"bf16", ValueCodec::bf16},
                                                      {"qsgd8", ValueCodec::qsgd8},
                                                      {"qsgd4", ValueCodec::qsgd4}},
      "how numbers travel: 4, 2 or 2 bytes each, or 8 or 4 bits rounded at random; "
      "other than identity only round the ring"));
  add(allreduce.whole(
      "top_k_per_512", GV_FIELD(allreduce.top_k_per_512), {0, 511},
      "so many of every 512 numbers travel, the largest, and the rest is kept for the "
      "next step; 0 = all; other than 0 only round the ring"));
  add(allreduce.whole(
      "rank", GV_FIELD(allreduce.factors.rank), {0, 256},
      "matrices of gradients travel as factors of this rank, and what they lack is kept "
      "for the next step; 0 = off; not with top_k_per_512"));
  add(allreduce.flag(
      "sufficient_factors", GV_FIELD(allreduce.sufficient_factors),
      "gradients of dense layers travel as the inputs and the deltas that they are the "
      "product of, where these are no more numbers; not with codec, top_k_per_512, rank "
      "or a period above 1"));
  const auto add_sparse = [&all](Setting<Config> setting) {
    all.push_back(agreed(only_with("allreduce.top_k_per_512", "top_k_per_512 above 0",
                                   sends_few_values, std::move(setting))));
  };
  add_sparse(allreduce.number("momentum", GV_FIELD(allreduce.momentum), {0, 0.9999},
                              "of gradients before the largest are chosen, as in deep gradient "
                              "compression; 0 = none, and what waits has no momentum"));
  add_sparse(allreduce.whole("warm_up_steps", GV_FIELD(allreduce.warm_up_steps), {0, 1e12},
                             "over so many steps the share that travels falls to top_k_per_512"));
  add(allreduce.whole(
      "bucket_elements", GV_FIELD(allreduce.bucket_elements), {1, 1e9},
      "gradients are summed in pieces of so many numbers, while others are computed"));
  add(allreduce.whole(
      "period", GV_FIELD(allreduce.local.period), {1, 1e6},
      "steps that each peer makes by itself between two sums; 1 = gradients are summed "
      "in every step"));
  const auto add_local = [&all](std::string_view key, std::string_view words,
                                bool (*has_effect)(const Config&), Setting<Config> setting) {
    all.push_back(agreed(only_with(key, words, has_effect, std::move(setting))));
  };
  add_local("allreduce.period", "a period above 1", makes_local_steps,
            allreduce.whole("local_after", GV_FIELD(allreduce.local.local_after), {0, 1e12},
                            "so many steps are made with a period of 1 first"));
  add_local(
      "allreduce.period", "a period above 1", makes_local_steps,
      allreduce.choice<>("outer", GV_FIELD(allreduce.local.outer),
                         std::vector<std::pair<std::string, OuterKind>>{
                             {"average", OuterKind::average}, {"nesterov", OuterKind::nesterov}},
                         "what the mean of everybody's changes does: the mean of the models, or a "
                         "step of Nesterov's method"));
  add_local("allreduce.outer", "outer = \"nesterov\" and a period above 1", has_outer_momentum,
            allreduce.number("outer_learning_rate", GV_FIELD(allreduce.local.outer_learning_rate),
                             {0, 100, true}, "of that method; 1 goes as far as the mean"));
  add_local("allreduce.outer", "outer = \"nesterov\" and a period above 1", has_outer_momentum,
            allreduce.number("outer_momentum", GV_FIELD(allreduce.local.outer_momentum),
                             {0, 0.9999}, "of that method"));
}

void append_rounds(Settings& all) {
  const Section<Config> rounds{"mixing"};
  const auto add_with = [&all](std::string_view key, std::string_view words,
                               bool (*has_effect)(const Config&), Setting<Config> setting) {
    all.push_back(agreed(only_with(key, words, has_effect, std::move(setting))));
  };
  const auto add = [&](Setting<Config> setting) {
    add_with("run.mode", "run.mode = \"mixing\"", makes_rounds, std::move(setting));
  };
  const auto add_shared = [&](Setting<Config> setting) {
    add_with("run.mode", "run.mode = \"mixing\" or pipeline.consensus = \"mixing\"", mixes,
             std::move(setting));
  };
  add_shared(rounds.choice<>("topology", GV_FIELD(mixing.rule.topology.kind),
                             named_choices(topology_kinds),
                             "who is whose neighbour; `grapevine topology` shows each"));
  add_with(
      "mixing.topology", "topology = \"random_regular\" or \"base_k\"",
      [](const Config& c) {
        const TopologyKind kind = c.mixing.rule.topology.kind;
        return mixes(c) && (kind == TopologyKind::random_regular || kind == TopologyKind::base_k);
      },
      rounds.whole("topology_degree", GV_FIELD(mixing.rule.topology.degree), {0, 4095},
                   "random_regular: neighbours of each peer, 0 = 4; base_k: partners in one round, "
                   "0 = 1"));
  add_with(
      "mixing.topology", "topology = \"moshpit\"",
      [](const Config& c) {
        return mixes(c) && c.mixing.rule.topology.kind == TopologyKind::moshpit;
      },
      rounds.whole("dimensions", GV_FIELD(mixing.rule.topology.dimensions), {1, 16},
                   "of the grid"));
  add_shared(rounds.flag("lazy", GV_FIELD(mixing.rule.topology.lazy),
                         "keep half of one's own model in every round"));
  add_shared(
      rounds.choice<>("partners", GV_FIELD(mixing.rule.partners), named_choices(partner_kinds),
                      "who of the neighbours counts: all; one that each draws and hears, which "
                      "hears it, or both; or one by drawn pairs"));
  add(rounds.choice<>("kind", GV_FIELD(mixing.rule.kind), named_choices(mix_kinds),
                      "what is made of messages: docs/algorithms"));
  add(rounds.choice<>("order", GV_FIELD(mixing.rule.order), named_choices(mix_orders),
                      "send what local steps come to, or send first and step meanwhile"));
  add(rounds.whole("period_steps", GV_FIELD(mixing.period), {1, 1e6}, "local steps of a round"));
  add_shared(rounds.number("gamma", GV_FIELD(mixing.rule.gamma), {0, 10, true},
                           "how much of the way to the neighbours is gone"));
  add_shared(rounds.number("alpha", GV_FIELD(mixing.rule.alpha), {0, 1},
                           "weight of each neighbour; 0 = as the topology says"));
  add_shared(rounds.choice<>("codec", GV_FIELD(mixing.rule.codec.kind), named_choices(lossy_kinds),
                             "how numbers travel"));
  add_with(
      "mixing.codec", "codec = \"top_k\" or \"random_k\"",
      [](const Config& c) {
        const LossyKind kind = c.mixing.rule.codec.kind;
        return mixes(c) && (kind == LossyKind::top_k || kind == LossyKind::random_k);
      },
      rounds.number("codec_fraction", GV_FIELD(mixing.rule.codec.fraction), {0, 1, true},
                    "the part of all numbers that travels"));
  add_with(
      "mixing.codec", "codec = \"qsgd\"",
      [](const Config& c) { return mixes(c) && c.mixing.rule.codec.kind == LossyKind::qsgd; },
      rounds.whole("codec_levels", GV_FIELD(mixing.rule.codec.levels), {1, 127},
                   "sizes a number is rounded to, beside 0"));
  add(rounds.choice<>("memory", GV_FIELD(mixing.rule.memory), named_choices(mix_memories),
                      "what is kept of earlier messages, so that a codec may leave something out"));
  add_shared(rounds.choice<>("guard", GV_FIELD(mixing.rule.guard.kind), named_choices(guard_kinds),
                             "what neighbours are believed"));
  const auto add_guarded = [&](Setting<Config> setting) {
    add_with(
        "mixing.guard", "a guard",
        [](const Config& c) { return mixes(c) && c.mixing.rule.guard.kind != GuardKind::none; },
        std::move(setting));
  };
  add_guarded(rounds.number("guard_radius", GV_FIELD(mixing.rule.guard.radius), {0, 1e9},
                            "of clips; 0 = by the distances of neighbours"));
  add_guarded(rounds.whole("guard_hostile", GV_FIELD(mixing.rule.guard.hostile), {-1, 1000},
                           "so many of the neighbours may be hostile; -1 = fewer than half"));
  add(rounds.choice<>("correction", GV_FIELD(mixing.rule.correction),
                      named_choices(mix_corrections), "what is done about unlike data"));
  add_with(
      "mixing.kind", "kind = \"noloco\", or correction = \"quasi_global\" or \"decentlam\"",
      [](const Config& c) {
        const MixRule& rule = c.mixing.rule;
        return makes_rounds(c) &&
               (rule.kind == MixKind::noloco || rule.correction == MixCorrection::quasi_global ||
                rule.correction == MixCorrection::decentlam);
      },
      rounds.number("momentum", GV_FIELD(mixing.rule.momentum), {0, 0.9999}, "of these"));
  add_with(
      "mixing.correction", "correction = \"quasi_global\"",
      [](const Config& c) {
        return makes_rounds(c) && c.mixing.rule.correction == MixCorrection::quasi_global;
      },
      rounds.number("smoothing", GV_FIELD(mixing.rule.smoothing), {0, 0.9999},
                    "share of its momentum that a round keeps"));
  add(rounds.whole("staleness", GV_FIELD(mixing.rule.staleness), {-1, 1e6},
                   "begin a round without what neighbours sent in the last so many; -1 = never "
                   "wait"));
  add(rounds.flag("weigh_by_age", GV_FIELD(mixing.rule.weigh_by_age),
                  "what is so many rounds old counts 1 / (1 + rounds)"));
  add(rounds.flag("weigh_by_samples", GV_FIELD(mixing.rule.weigh_by_samples),
                  "peers count by the samples of their shards; only push_sum can"));
  add_shared(rounds.whole("fragments", GV_FIELD(mixing.rule.fragments), {1, 4096},
                          "a round is about one of so many pieces of the model"));
  add_with(
      "mixing.fragments", "fragments above 1",
      [](const Config& c) { return makes_rounds(c) && c.mixing.rule.fragments > 1; },
      rounds.choice<>("fragment_order", GV_FIELD(mixing.rule.fragment_order),
                      named_choices(fragment_orders),
                      "which one: the next at all peers, or at each that which changed most"));
  add_with(
      "mixing.topology", "topology = \"star\"",
      [](const Config& c) {
        return makes_rounds(c) && c.mixing.rule.topology.kind == TopologyKind::star;
      },
      rounds.flag("centre_rests", GV_FIELD(mixing.rule.centre_rests),
                  "the centre only mixes and does not train"));
  add(rounds.choice<>("outer", GV_FIELD(mixing.rule.outer), named_choices(mix_outers),
                      "what follows mixing every so many rounds"));
  const auto add_outer = [&](Setting<Config> setting) {
    add_with(
        "mixing.outer", "outer = \"slowmo\"",
        [](const Config& c) { return makes_rounds(c) && c.mixing.rule.outer == MixOuter::slowmo; },
        std::move(setting));
  };
  add_outer(rounds.whole("outer_every", GV_FIELD(mixing.rule.outer_every), {1, 1e6},
                         "rounds between two outer steps"));
  add_outer(rounds.number("outer_momentum", GV_FIELD(mixing.rule.outer_momentum), {0, 0.9999},
                          "of the outer step"));
  add_with(
      "mixing.outer", "outer = \"slowmo\" or kind = \"noloco\"",
      [](const Config& c) {
        return makes_rounds(c) &&
               (c.mixing.rule.outer == MixOuter::slowmo || c.mixing.rule.kind == MixKind::noloco);
      },
      rounds.number("outer_learning_rate", GV_FIELD(mixing.rule.outer_learning_rate),
                    {0, 100, true}, "of the outer step"));
  all.push_back(
      only_with("run.mode", "run.mode = \"mixing\"", makes_rounds,
                rounds.whole("catch_up_rounds", GV_FIELD(mixing.catch_up_rounds), {1, 1e9},
                             "whoever is so many rounds behind is sent a model")));
}

void append_pipeline(Settings& all) {
  const Section<Config> pipeline{"pipeline"};
  const auto add_with = [&all](std::string_view key, std::string_view words,
                               bool (*has_effect)(const Config&), Setting<Config> setting) {
    all.push_back(agreed(only_with(key, words, has_effect, std::move(setting))));
  };
  const auto add = [&](Setting<Config> setting) {
    add_with(
        "run.mode", "run.mode = \"pipeline\"",
        [](const Config& c) { return c.run.mode == ModeKind::pipeline; }, std::move(setting));
  };
  add(pipeline.whole("stages", GV_FIELD(pipeline.stages), {1, 256},
                     "the model is cut into so many, by what its layers are estimated to cost"));
  add(pipeline.wholes("ends", GV_FIELD(pipeline.ends), {1, 1e6},
                      "cut here instead: one past the last layer of each stage, the first layer "
                      "being 0; empty = by cost"));
  add_with(
      "pipeline.ends", "run.mode = \"pipeline\" and ends = []",
      [](const Config& c) { return c.run.mode == ModeKind::pipeline && c.pipeline.ends.empty(); },
      pipeline.number("memory_mb", GV_FIELD(pipeline.memory_mb), {0, 1e9},
                      "cut so that no stage is estimated to need more megabytes of a peer; 0 = "
                      "without limit"));
  std::vector<std::pair<std::string, PipelineKind>> kinds;
  for (const PipelineKind kind : pipeline_kinds) kinds.emplace_back(to_string(kind), kind);
  add(pipeline.choice<>("schedule", GV_FIELD(pipeline.mode.kind), std::move(kinds),
                        "who computes what in which order in a run: docs/pipeline.md"));
  add(pipeline.whole("micro_batches", GV_FIELD(pipeline.mode.micro_batches), {1, 4096},
                     "of train.batch samples each, in a run of everybody, which is one step"));
  add_with(
      "pipeline.schedule", "run.mode = \"pipeline\" and schedule = \"2bw\"",
      [](const Config& c) {
        return c.run.mode == ModeKind::pipeline && c.pipeline.mode.kind == PipelineKind::two_bw;
      },
      pipeline.whole("accumulate", GV_FIELD(pipeline.mode.accumulate), {0, 4096},
                     "micro-batches of one replica between two updates; at least as many as there "
                     "are stages; 0 = as many"));
  add_with(
      "pipeline.schedule",
      "run.mode = \"pipeline\" and schedule = \"1f1b\", \"zero-bubble\", \"chimera\" or \"2bw\"",
      [](const Config& c) {
        return c.run.mode == ModeKind::pipeline && can_go_ahead(c.pipeline.mode.kind);
      },
      pipeline.whole("ahead", GV_FIELD(pipeline.mode.ahead), {0, 64},
                     "transfers that take as long as so many passes are hidden behind computing; "
                     "each stage keeps so many micro-batches more for every stage behind it, with "
                     "2bw no more than accumulate"));
  add(pipeline.choice<>(
      "router", GV_FIELD(pipeline.mode.router),
      std::vector<std::pair<std::string, RouterKind>>{{"fixed", RouterKind::fixed},
                                                      {"random", RouterKind::random},
                                                      {"throughput", RouterKind::throughput}},
      "which replica of a stage takes which micro-batch: in turns, at random, or "
      "as many as its speed allows"));
  add(pipeline.choice<>("consensus", GV_FIELD(pipeline.mode.consensus),
                        named_choices(stage_consensuses),
                        "how replicas of a stage agree: by summing their gradients, by averaging "
                        "parameters in pairs, or by mixing them as [mixing] says"));
  const auto gossips = [](const Config& c) {
    return c.run.mode == ModeKind::pipeline && c.pipeline.mode.consensus == StageConsensus::gossip;
  };
  constexpr std::string_view gossips_words = "run.mode = \"pipeline\" and consensus = \"gossip\"";
  add_with("pipeline.consensus", gossips_words, gossips,
           pipeline.number("mix_alpha", GV_FIELD(pipeline.mode.mix_alpha), {0, 0.5, true},
                           "how far each of a pair goes towards the other; 0.5 = to the mean"));
  add_with(
      "pipeline.consensus", "run.mode = \"pipeline\" and consensus = \"gossip\" or \"rounds\"",
      [](const Config& c) {
        return c.run.mode == ModeKind::pipeline &&
               c.pipeline.mode.consensus != StageConsensus::allreduce;
      },
      pipeline.whole("mix_every", GV_FIELD(pipeline.mode.mix_every), {1, 1e6},
                     "runs between two averagings"));
  add(pipeline.flag("recompute", GV_FIELD(pipeline.recompute),
                    "keep only what comes into a stage and compute the rest again: less memory, a "
                    "third more work"));
  add(pipeline.whole("copy_every", GV_FIELD(pipeline.mode.copy_every), {0, 1e6},
                     "runs between two copies of each stage that a neighbour keeps, in case all "
                     "its carriers die; 0 = none"));
}

void append_membership(Settings& all) {
  const Section<Config> membership{"membership"};
  all.push_back(membership.duration("probe_period_s", GV_FIELD(membership.probe_period),
                                    {0.01, 3600}, "one member is probed this often"));
  all.push_back(
      membership.duration("probe_timeout_s", GV_FIELD(membership.probe_timeout), {0.001, 3600},
                          "wait for its answer before others are asked; below the period"));
  all.push_back(membership.whole("indirect_probes", GV_FIELD(membership.indirect_probes), {0, 100},
                                 "how many others are asked"));
  all.push_back(
      membership.duration("suspicion_min_s", GV_FIELD(membership.suspicion_min), {0.01, 3600},
                          "from suspected to dead for two peers; grows with their number"));
  all.push_back(membership.number("suspicion_max_factor", GV_FIELD(membership.suspicion_max_factor),
                                  {1, 1000}, "times longer while nobody else confirms"));
  all.push_back(membership.duration("push_pull_period_s", GV_FIELD(membership.push_pull_period),
                                    {0.1, 86400}, "between two full comparisons of members"));
  all.push_back(membership.duration("forget_dead_s", GV_FIELD(membership.forget_dead_after),
                                    {1, 1e7}, "how long the dead are remembered"));
}

void append_rest(Settings& all) {
  const Section<Config> network{"network"};
  all.push_back(network.flag("trusted", GV_FIELD(network.trusted),
                             "nobody can listen in: models may travel unencrypted"));
  all.push_back(network.choice<>(
      "lane", GV_FIELD(network.lane),
      std::vector<std::pair<std::string, LaneKind>>{{"auto", LaneKind::automatic},
                                                    {"tls", LaneKind::tls},
                                                    {"plain", LaneKind::plain},
                                                    {"unix", LaneKind::unix_socket}},
      "auto: unix on one host, else plain if trusted, else tls"));
  all.push_back(network.whole("budget_mib", GV_FIELD(network.budget_mib), {1, 1048576},
                              "memory for blocks on their way, all lanes together"));
  all.push_back(network.number("idle_close_s", GV_FIELD(network.idle_close_s), {1, 86400},
                               "links without traffic are closed after this"));
  const Section<Config> checkpoint{"checkpoint"};
  all.push_back(checkpoint.whole("every_steps", GV_FIELD(checkpoint.every_steps), {0, 1e12},
                                 "local steps between two checkpoints; 0 = only at the end"));
  all.push_back(
      checkpoint.whole("keep", GV_FIELD(checkpoint.keep), {1, 1000}, "older ones are deleted"));
  const Section<Config> metrics{"metrics"};
  all.push_back(metrics.number("every_s", GV_FIELD(metrics.every_s), {0.1, 86400},
                               "between two lines and two rewrites of the metrics file"));
}

Settings make_config_settings() {
  Settings all;
  append_run(all);
  append_data(all);
  append_generated(all);
  append_model(all);
  append_train(all);
  append_schedule(all);
  append_gossip(all);
  append_population(all);
  append_ring(all);
  append_rounds(all);
  append_pipeline(all);
  append_membership(all);
  append_rest(all);
  return all;
}

std::vector<Setting<LayerSpec>> make_layer_settings() {
  const Section<LayerSpec> layer{""};
  using Kinds = std::vector<LayerKind>;
  const auto with = [](std::string_view in_words, Kinds kinds, Setting<LayerSpec> setting) {
    return only_with(
        "kind", in_words,
        [kinds = std::move(kinds)](const LayerSpec& spec) {
          return std::find(kinds.begin(), kinds.end(), spec.kind) != kinds.end();
        },
        std::move(setting));
  };
  const Kinds windows{LayerKind::conv2d, LayerKind::max_pool, LayerKind::avg_pool};
  constexpr std::string_view window_words = "kind = \"conv2d\", \"max_pool\" or \"avg_pool\"";
  std::vector<Setting<LayerSpec>> all;
  all.push_back(layer.choice<>(
      "kind", GV_FIELD(kind),
      std::vector<std::pair<std::string, LayerKind>>{{"dense", LayerKind::dense},
                                                     {"conv2d", LayerKind::conv2d},
                                                     {"max_pool", LayerKind::max_pool},
                                                     {"avg_pool", LayerKind::avg_pool},
                                                     {"flatten", LayerKind::flatten},
                                                     {"relu", LayerKind::relu},
                                                     {"tanh", LayerKind::tanh},
                                                     {"gelu", LayerKind::gelu},
                                                     {"dropout", LayerKind::dropout},
                                                     {"layer_norm", LayerKind::layer_norm},
                                                     {"group_norm", LayerKind::group_norm},
                                                     {"embedding", LayerKind::embedding},
                                                     {"attention", LayerKind::attention},
                                                     {"residual", LayerKind::residual}},
      "what the layer does; required"));
  all.push_back(with("kind = \"dense\", \"conv2d\" or \"embedding\"",
                     {LayerKind::dense, LayerKind::conv2d, LayerKind::embedding},
                     layer.whole("units", GV_FIELD(units), {1, 1e6},
                                 "outputs of a dense layer, channels of a convolution, width of an "
                                 "embedding")));
  all.push_back(with(window_words, windows,
                     layer.whole("kernel", GV_FIELD(kernel), {1, 1024}, "side of the window")));
  all.push_back(with(window_words, windows,
                     layer.whole("stride", GV_FIELD(stride), {0, 1024},
                                 "0 = 1 for conv2d, the kernel for pools")));
  all.push_back(with("kind = \"conv2d\"", {LayerKind::conv2d},
                     layer.whole("padding", GV_FIELD(padding), {0, 1024}, "zeros on each side")));
  all.push_back(with("kind = \"group_norm\"", {LayerKind::group_norm},
                     layer.whole("groups", GV_FIELD(groups), {1, 65536}, "groups of channels")));
  all.push_back(with("kind = \"dropout\"", {LayerKind::dropout},
                     layer.number("rate", GV_FIELD(rate), {0, 0.999},
                                  "probability that an activation is dropped")));
  all.push_back(with("kind = \"dense\" or \"layer_norm\"",
                     {LayerKind::dense, LayerKind::layer_norm},
                     layer.flag("per_position", GV_FIELD(per_position),
                                "at every position of a sequence by itself")));
  all.push_back(with("kind = \"dense\"", {LayerKind::dense},
                     layer.flag("tied", GV_FIELD(tied),
                                "weights are the table of the embedding the model begins with")));
  all.push_back(with("kind = \"embedding\"", {LayerKind::embedding},
                     layer.whole("vocabulary", GV_FIELD(vocabulary), {1, 1 << 24},
                                 "ids are below this: 256 for bytes")));
  all.push_back(with("kind = \"attention\"", {LayerKind::attention},
                     layer.whole("heads", GV_FIELD(heads), {1, 1024}, "a divisor of the width")));
  Setting<LayerSpec> inside{"", "layers", "what is added to the input: y = x + layers(x)",
                            "list of layers"};
  inside.read = [](const TomlValue&, LayerSpec&) { return std::nullopt; };
  inside.show = [](const LayerSpec& spec) { return to_string(spec.layers); };
  all.push_back(with("kind = \"residual\"", {LayerKind::residual}, std::move(inside)));
  return all;
}

}  // namespace

std::span<const Setting<Config>> config_settings() {
  static const Settings settings = make_config_settings();
  return settings;
}

std::span<const Setting<LayerSpec>> layer_settings() {
  static const std::vector<Setting<LayerSpec>> settings = make_layer_settings();
  return settings;
}

std::string to_string(const LayerSpec& layer) {
  std::string text;
  for (const Setting<LayerSpec>& setting : layer_settings()) {
    if (setting.has_effect && !setting.has_effect(layer)) continue;
    text += (text.empty() ? "{" : ", ") + std::string(setting.key) + " = " + setting.show(layer);
  }
  return text + "}";
}

std::string to_string(const std::vector<LayerSpec>& layers) {
  std::string text;
  for (const LayerSpec& layer : layers) text += (text.empty() ? "" : ", ") + to_string(layer);
  return "[" + text + "]";
}

}  // namespace gv
