// The keys for data, model and training.
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
            "where the files are; a relative path is relative to this config file");
  files.add("train_files", GV_FIELD(data.train_files),
            "training files in the folder; idx: images then labels");
  files.add("test_files", GV_FIELD(data.test_files),
            "test files in the folder; idx: images then labels; text: if there are none, the last "
            "tenth of each training file is used");
  data.with("kind", {"csv"})
      .add("csv_targets", GV_FIELD(data.csv_targets), {0, 65536},
           "number of columns, counted from the last, that are targets; 0 = the last column is a "
           "label");
  data.agreed()
      .with("kind", {"text"})
      .add("context", GV_FIELD(data.context), {1, 65536},
           "bytes in a sample, the most that the model sees at once");
  numbers.add("mean", GV_FIELD(data.mean), {-1e9, 1e9},
              "subtracted from every input; inputs that are bytes are first divided by 255");
  numbers.add("deviation", GV_FIELD(data.deviation), {least_positive, 1e9},
              "every input is divided by this after the mean is subtracted");
  data.choice("partition", GV_FIELD(data.partition.kind),
              named_choices(names_of<PartitionKind>(
                  {"iid", "dirichlet", "by_label", "shared", "leased", "clusters"})),
              "how the samples are dealt out to the peers; shared = every peer trains on all data "
              "that it has; leased = every peer can read all samples, and takes chunks of them as "
              "it trains; clusters = each peer has the samples nearest to one of the centres");
  data.with("partition", {"clusters"})
      .add("centres", GV_FIELD(data.centres),
           "the model file of a k-means with a centre for each peer; a relative path is relative "
           "to this config file");
  data.with("partition", {"leased"})
      .agreed()
      .add("chunk_samples", GV_FIELD(data.chunk_samples), {0, 1e8},
           "least number of samples that a peer takes at once; a multiple of the batch, 0 = 16 "
           "batches");
  data.with("partition", {"leased"})
      .agreed()
      .add("in_memory", GV_FIELD(data.in_memory),
           "true = read all training data into memory at the start; false = read them from their "
           "files in blocks during training");
  data.with("partition", {"dirichlet"})
      .add("concentration", GV_FIELD(data.partition.alpha), {0, 1e6, true},
           "alpha of the Dirichlet distribution; the smaller it is, the more the shards differ");
  data.with("partition", {"by_label"})
      .add("labels_per_peer", GV_FIELD(data.partition.labels_per_peer), {1, 65536},
           "number of pieces in the shard of a peer; the samples are sorted by label and cut into "
           "equal pieces, so a piece can hold the end of one label and the start of the next: with "
           "4 peers, 10 equal labels and 3 pieces each, a peer has 3 to 6 labels");
}

void append_generated(Settings& all) {
  const Keys generated = Keys{all, "data.generated"}.agreed().with("data.kind", {"generated"});
  generated.add("samples", GV_FIELD(data.generated.samples), {1, 1e8}, "training samples in all");
  generated.add("test_samples", GV_FIELD(data.generated.test_samples), {1, 1e8}, "test samples");
  generated.add("features", GV_FIELD(data.generated.features), {1, 65536},
                "numbers in one sample, or channels of an image");
  generated.add("side", GV_FIELD(data.generated.side), {0, 4096},
                "width and height of generated images; 0 = samples are flat lists of numbers");
  generated.add("classes", GV_FIELD(data.generated.classes), {2, 65536},
                "number of different labels");
  generated.add("blobs_per_class", GV_FIELD(data.generated.blobs), {1, 1000},
                "number of blobs in a class, each around a centre of its own; with several, no "
                "planes can separate the classes");
  generated.add("targets", GV_FIELD(data.generated.targets), {0, 65536},
                "numbers to predict for each sample, which are linear in its inputs; 0 = each "
                "sample has a label");
  generated.add("noise", GV_FIELD(data.generated.noise), {0, 1000},
                "spread of a class around its centre, or of targets; more makes the task harder");
}

void append_model(Settings& all) {
  const Keys model = Keys{all, "model"}.agreed();
  model.choice("kind", GV_FIELD(model.kind), named_choices(model_names),
               "name of a model, or layers for the list in [[model.layers]]");
  model.with("kind", {"mlp"})
      .add("hidden", GV_FIELD(model.hidden), {1, 1e6},
           "widths of the hidden layers, first to last");
  const Keys transformer = model.with("kind", {"transformer"});
  transformer.add("blocks", GV_FIELD(model.transformer.blocks), {1, 1000},
                  "number of blocks, each of attention and two dense layers");
  transformer.add("width", GV_FIELD(model.transformer.width), {1, 65536},
                  "numbers that represent a byte between blocks");
  transformer.add("heads", GV_FIELD(model.transformer.heads), {1, 1024},
                  "number of attention heads in a block; a divisor of the width");
  transformer.add("tied", GV_FIELD(model.transformer.tied),
                  "true = the output layer uses the table of the embedding");
  model.with("kind", {"lenet", "cnn"})
      .choice("convolution", GV_FIELD(model.convolution), named_choices(convolution_names),
              "how convolutions are computed; auto: the fastest method for each shape");
  model.choice(
      "loss", GV_FIELD(model.loss),
      named_choices(names_of<LossKind>({"cross_entropy", "hinge", "squared", "reconstruction"})),
      "what training minimises; hinge with kind = \"linear\" and weight decay is a linear "
      "support vector machine; squared is for targets; reconstruction compares outputs with "
      "the inputs themselves");
  model.choice("weights", GV_FIELD(model.weights),
               named_choices(names_of<WeightValues>({"float", "ternary"})),
               "values of weight matrices in computations; ternary: -a, 0 or a, with one a for "
               "each matrix, while training changes the floats from which these are made");
}

void append_train(Settings& all) {
  const Keys train{all, "train"};
  train.add("batch", GV_FIELD(train.batch), {1, 65536},
            "samples in one step; in a pipeline, samples in a micro-batch");
  train.add("threads", GV_FIELD(train.threads), {1, 64},
            "threads of a peer that train its one model at the same time, without locks; more than "
            "1 only with optimizer = \"sgd\" in gossip");
  train.choice("precision", GV_FIELD(train.precision),
               named_choices(names_of<Precision>({"float32", "bf16"})),
               "type to which dense layers and convolutions round the factors of their products; "
               "sums and parameters are always float32");
  train.choice("optimizer", GV_FIELD(train.optimizer.kind),
               named_choices(names_of<OptimizerKind>({"sgd", "momentum", "nesterov", "adagrad",
                                                      "rmsprop", "adam", "adamw", "lars", "lamb"})),
               "how gradients become steps; the optimiser's state stays with the peer");
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
           "added to the root of the mean square; with lars, added to the norm of a gradient");
  train.with("optimizer", {"lars"})
      .add("trust", GV_FIELD(train.optimizer.trust), {least_positive, 1},
           "norm of a tensor's step divided by the norm of the tensor, at a learning rate of 1");
  train.add("weight_decay", GV_FIELD(train.optimizer.weight_decay), {0, 1},
            "how strongly weights are pulled towards zero; decoupled from the gradient only with "
            "adamw and lamb");
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
            "number of steps in which the learning rate rises linearly to its full value");
  train.with("schedule", {"step", "growing_batch"})
      .add("step_at", GV_FIELD(train.schedule.step_at), {1, 1e12},
           "steps at which the learning rate or the batch is multiplied, in rising order; if the "
           "batch grows, counted in steps of the first batch");
  const Keys growing = train.with("schedule", {"growing_batch"});
  growing.add("batch_factor", GV_FIELD(train.schedule.batch_factor), {2, 1024},
              "factor by which the batch is multiplied");
  growing.add("batch_growths", GV_FIELD(train.schedule.batch_growths), {1, 16},
              "number of steps in step_at at which the batch grows; at the others the learning "
              "rate is divided by batch_factor");
  train.with("schedule", {"step"})
      .add("step_factor", GV_FIELD(train.schedule.step_factor), {0, 1, true},
           "factor by which the learning rate is multiplied");
  train.with("schedule", {"cosine"})
      .add("final_fraction", GV_FIELD(train.schedule.final_fraction), {0, 1},
           "learning rate at the last step, as a fraction of the highest");
  train.add("reference_batch", GV_FIELD(train.schedule.reference_batch), {0, 65536},
            "linear scaling: the batch for which learning_rate was found; with allreduce and in a "
            "pipeline it is compared with the batch of all peers together; 0 = off");
}

}  // namespace gv::settings
