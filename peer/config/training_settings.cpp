// The keys of data, model and training.
#include <string>
#include <vector>

#include "peer/config/setting_builders.hpp"
#include "train/layers/convolution_method.hpp"

namespace gv::settings {

void append_data(Settings& all) {
  const Keys data{all, "data"};
  const Keys numbers =
      data.agreed().only_with("data.kind", "a kind other than \"text\"",
                              [](const Config& c) { return c.data.kind != DataKind::text; });
  data.agreed().choice(
      "kind", GV_FIELD(data.kind),
      named_choices(names_of<DataKind>({"generated", "idx", "cifar10", "csv", "text"})),
      "the built-in task, or the format of the files");
  const Keys files = data.with("kind", {"idx", "cifar10", "csv", "text"});
  files.add("folder", GV_FIELD(data.folder),
            "where the files are; a relative path starts at this file");
  files.add("train_files", GV_FIELD(data.train_files),
            "training files in the folder; idx: images then labels");
  files.add("test_files", GV_FIELD(data.test_files),
            "test files in the folder; idx: images then labels; text: without any, the last tenth "
            "of each training file");
  data.with("kind", {"csv"})
      .add("csv_targets", GV_FIELD(data.csv_targets), {0, 65536},
           "last columns that are targets; 0 = the last is a label");
  data.agreed()
      .with("kind", {"text"})
      .add("context", GV_FIELD(data.context), {1, 65536},
           "bytes in a sample: the model sees at most this many");
  numbers.add("mean", GV_FIELD(data.mean), {-1e9, 1e9},
              "subtracted from every input; bytes are first divided by 255");
  numbers.add("deviation", GV_FIELD(data.deviation), {least_positive, 1e9},
              "what every input is divided by after that");
  data.choice(
      "partition", GV_FIELD(data.partition.kind),
      named_choices(names_of<PartitionKind>(
          {"iid", "dirichlet", "by_label", "shared", "leased", "clusters"})),
      "how the samples are dealt out; shared = everybody has all; leased = everybody can "
      "read all, and the peers take chunks as they train; clusters = each has those nearest to "
      "one of the centres");
  data.with("partition", {"clusters"})
      .add(
          "centres", GV_FIELD(data.centres),
          "the model file of a k-means with a centre for each peer; a relative path starts at this "
          "file");
  data.with("partition", {"leased"})
      .agreed()
      .add("chunk_samples", GV_FIELD(data.chunk_samples), {0, 1e8},
           "samples that a peer takes at least; a multiple of the batch, 0 = 16 batches");
  data.with("partition", {"leased"})
      .agreed()
      .add("in_memory", GV_FIELD(data.in_memory),
           "read the training data into memory at the start; false = read them from their files in "
           "blocks, as training goes");
  data.with("partition", {"dirichlet"})
      .add("concentration", GV_FIELD(data.partition.alpha), {0, 1e6, true},
           "alpha of the Dirichlet draw; small makes unlike shards");
  data.with("partition", {"by_label"})
      .add("labels_per_peer", GV_FIELD(data.partition.labels_per_peer), {1, 65536},
           "how many different labels one peer sees");
}

void append_generated(Settings& all) {
  const Keys generated = Keys{all, "data.generated"}.agreed().with("data.kind", {"generated"});
  generated.add("samples", GV_FIELD(data.generated.samples), {1, 1e8}, "training samples in all");
  generated.add("test_samples", GV_FIELD(data.generated.test_samples), {1, 1e8}, "test samples");
  generated.add("features", GV_FIELD(data.generated.features), {1, 65536},
                "numbers in one sample, or channels of an image");
  generated.add("side", GV_FIELD(data.generated.side), {0, 4096},
                "of square images; 0 = samples are flat");
  generated.add("classes", GV_FIELD(data.generated.classes), {2, 65536}, "different labels");
  generated.add("blobs_per_class", GV_FIELD(data.generated.blobs), {1, 1000},
                "each around a centre of its own; with several, no planes divide the classes");
  generated.add("targets", GV_FIELD(data.generated.targets), {0, 65536},
                "numbers to predict for each sample, linear in its inputs; 0 = it has a label");
  generated.add("noise", GV_FIELD(data.generated.noise), {0, 1000},
                "spread of a class around its centre, or of targets; more is harder");
}

void append_model(Settings& all) {
  const Keys model = Keys{all, "model"}.agreed();
  model.choice("kind", GV_FIELD(model.kind), named_choices(model_names),
               "a model known by name, or layers for the list in [[model.layers]]");
  model.with("kind", {"mlp"})
      .add("hidden", GV_FIELD(model.hidden), {1, 1e6},
           "widths of the hidden layers, first to last");
  const Keys transformer = model.with("kind", {"transformer"});
  transformer.add("blocks", GV_FIELD(model.transformer.blocks), {1, 1000},
                  "attention and two dense layers each");
  transformer.add("width", GV_FIELD(model.transformer.width), {1, 65536},
                  "numbers that stand for a byte between blocks");
  transformer.add("heads", GV_FIELD(model.transformer.heads), {1, 1024},
                  "attentions side by side in a block; a divisor of the width");
  transformer.add("tied", GV_FIELD(model.transformer.tied),
                  "the output layer uses the embedding's table");
  model.with("kind", {"lenet", "cnn"})
      .choice("convolution", GV_FIELD(model.convolution), named_choices(convolution_names),
              "how convolutions are computed; auto: the quickest for each shape");
  model.choice(
      "loss", GV_FIELD(model.loss),
      named_choices(names_of<LossKind>({"cross_entropy", "hinge", "squared", "reconstruction"})),
      "what training minimises; hinge with kind = \"linear\" and weight decay is a linear "
      "support vector machine; squared is for targets; reconstruction compares outputs with "
      "the inputs themselves");
  model.choice("weights", GV_FIELD(model.weights),
               named_choices(names_of<WeightValues>({"float", "ternary"})),
               "what weight matrices are computed with; ternary: -a, 0 or a, with one a for each "
               "matrix, while training changes the floats behind them");
}

void append_train(Settings& all) {
  const Keys train{all, "train"};
  train.add("batch", GV_FIELD(train.batch), {1, 65536},
            "samples in one step; in a pipeline those of a micro-batch");
  train.add("threads", GV_FIELD(train.threads), {1, 64},
            "threads of a peer that step on its one model at once, without locks; more than 1 only "
            "with optimizer = \"sgd\" in gossip");
  train.choice(
      "precision", GV_FIELD(train.precision),
      named_choices(names_of<Precision>({"float32", "bf16"})),
      "what dense layers and convolutions round the factors of their products to; sums and "
      "parameters are float32 either way");
  train.choice("optimizer", GV_FIELD(train.optimizer.kind),
               named_choices(names_of<OptimizerKind>({"sgd", "momentum", "nesterov", "adagrad",
                                                      "rmsprop", "adam", "adamw", "lars", "lamb"})),
               "how gradients become steps; its state stays with the peer");
  constexpr Bounds below_one{0, 0.999999};
  train.with("optimizer", {"momentum", "nesterov", "lars"})
      .add("momentum", GV_FIELD(train.optimizer.momentum), below_one,
           "share of the last step's velocity that is kept");
  train.with("optimizer", {"rmsprop"})
      .add("decay", GV_FIELD(train.optimizer.decay), below_one,
           "share of the mean square that is kept");
  const Keys of_adam = train.with("optimizer", {"adam", "adamw", "lamb"});
  of_adam.add("beta1", GV_FIELD(train.optimizer.beta1), below_one,
              "share of the mean gradient that is kept");
  of_adam.add("beta2", GV_FIELD(train.optimizer.beta2), below_one,
              "share of the mean square that is kept");
  train.with("optimizer", {"adagrad", "rmsprop", "adam", "adamw", "lars", "lamb"})
      .add("epsilon", GV_FIELD(train.optimizer.epsilon), {least_positive, 1},
           "added to the root of the mean square; of lars to a gradient's length");
  train.with("optimizer", {"lars"})
      .add("trust", GV_FIELD(train.optimizer.trust), {least_positive, 1},
           "a tensor's step over its own length, at a learning rate of 1");
  train.add("weight_decay", GV_FIELD(train.optimizer.weight_decay), {0, 1},
            "pull of the weights towards zero; decoupled for adamw and lamb only");
}

void append_schedule(Settings& all) {
  const Keys train{all, "train"};
  train.add("learning_rate", GV_FIELD(train.schedule.learning_rate), {least_positive, 100},
            "size of a step, after warm-up");
  train.choice(
      "schedule", GV_FIELD(train.schedule.kind),
      named_choices(names_of<ScheduleKind>({"constant", "step", "cosine", "growing_batch"})),
      "how the learning rate changes over the run; growing_batch: the batch grows instead");
  train.add("warmup_steps", GV_FIELD(train.schedule.warmup_steps), {0, 1e9},
            "steps of a linear ramp up to the learning rate");
  train.with("schedule", {"step", "growing_batch"})
      .add("step_at", GV_FIELD(train.schedule.step_at), {1, 1e12},
           "steps at which the rate is multiplied, or the batch, rising; where the batch grows, "
           "steps of the first batch");
  const Keys growing = train.with("schedule", {"growing_batch"});
  growing.add("batch_factor", GV_FIELD(train.schedule.batch_factor), {2, 1024},
              "what the batch is multiplied by");
  growing.add(
      "batch_growths", GV_FIELD(train.schedule.batch_growths), {1, 16},
      "how many of these steps the batch takes; the others divide the rate by batch_factor");
  train.with("schedule", {"step"})
      .add("step_factor", GV_FIELD(train.schedule.step_factor), {0, 1, true},
           "what it is multiplied by");
  train.with("schedule", {"cosine"})
      .add("final_fraction", GV_FIELD(train.schedule.final_fraction), {0, 1},
           "the rate at the last step as a fraction of the highest");
  train.add("reference_batch", GV_FIELD(train.schedule.reference_batch), {0, 65536},
            "linear scaling: the batch learning_rate was found for; in lockstep and in a pipeline "
            "that of all peers together counts; 0 = off");
}

}  // namespace gv::settings
