//! The data sets: names, sizes, digests, addresses.
//!
//! Where the digests come from. SHA-256 of the archives: the list of checksums of TensorFlow Datasets
//! (`url_checksums/`), for all four sets; those of MNIST were checked against the files themselves, whose MD5 sums are
//! the ones that are given everywhere. SHA-256 of the unpacked files: of MNIST computed from these files; of
//! CIFAR-10 and CIFAR-100 as torchvision-ruby gives them, where those of the first two training batches of CIFAR-10
//! were checked against the pixels. There are no published ones of the unpacked Fashion-MNIST, so there is none here: they
//! are written down when the verified archive is unpacked.

/// A data set that can be fetched.
#[derive(Debug)]
pub struct PublicDataSet {
    /// As a recipe calls it.
    pub name: &'static str,
    /// As its authors call it.
    pub title: &'static str,
    /// The name of its folder.
    pub folder: &'static str,
    /// Who made it, and on what terms.
    pub terms: &'static str,
    /// The files to download.
    pub archives: &'static [Archive],
}

/// A file as it is published.
#[derive(Debug)]
pub struct Archive {
    /// Its name, the same at every source.
    pub name: &'static str,
    /// Length of the archive in bytes.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: &'static str,
    /// Addresses of folders that have it, the best first.
    pub sources: &'static [&'static str],
    /// How the files lie in it.
    pub packing: Packing,
    /// Files in it that a run reads.
    pub files: &'static [KnownFile],
}

/// How files lie in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// A single file, compressed.
    Gzip,
    /// Several in a folder of this name, compressed together.
    TarGzip(&'static str),
}

/// A file as a run reads it.
#[derive(Debug)]
pub struct KnownFile {
    /// Its name, in the archive too.
    pub name: &'static str,
    /// Length of the uncompressed file in bytes.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal, where it is published.
    pub sha256: Option<&'static str>,
}

impl PublicDataSet {
    /// Every data set that can be fetched.
    pub const ALL: [&'static Self; 4] = [&MNIST, &FASHION_MNIST, &CIFAR_10, &CIFAR_100];

    /// The data set of that name, with or without dashes.
    pub fn named(name: &str) -> Option<&'static Self> {
        let plain = |name: &str| name.replace(['-', '_'], "").to_lowercase();
        Self::ALL.into_iter().find(|set| plain(set.name) == plain(name))
    }

    /// Bytes to fetch: all archives together.
    pub fn packed_bytes(&self) -> u64 {
        self.archives.iter().map(|archive| archive.bytes).sum()
    }

    /// Bytes that lie in the folder at the end.
    pub fn unpacked_bytes(&self) -> u64 {
        self.archives.iter().map(Archive::unpacked_bytes).sum()
    }
}

impl Archive {
    /// Bytes of its files.
    pub fn unpacked_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

const fn gzip(
    name: &'static str,
    content: Content,
    sources: &'static [&'static str],
    files: &'static [KnownFile],
) -> Archive {
    let Content { bytes, sha256 } = content;
    Archive { name, bytes, sha256, sources, packing: Packing::Gzip, files }
}

/// The published content of an archive.
struct Content {
    bytes: u64,
    /// SHA-256 of the archive, in hexadecimal.
    sha256: &'static str,
}

const fn file(name: &'static str, bytes: u64, sha256: Option<&'static str>) -> KnownFile {
    KnownFile { name, bytes, sha256 }
}

/// 60,000 images of 28 x 28 and a header of 16 bytes.
const TRAIN_IMAGES: u64 = 16 + 60_000 * 28 * 28;
/// 10,000 images of the same size, and the same header.
const TEST_IMAGES: u64 = 16 + 10_000 * 28 * 28;
/// A byte per label and a header of 8 bytes.
const TRAIN_LABELS: u64 = 8 + 60_000;
const TEST_LABELS: u64 = 8 + 10_000;

const MNIST_SOURCES: &[&str] = &[
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
    "http://yann.lecun.com/exdb/mnist",
];

/// Handwritten digits: 60,000 and 10,000 images of 28 x 28.
pub static MNIST: PublicDataSet = PublicDataSet {
    name: "mnist",
    title: "MNIST",
    folder: "mnist",
    terms: "LeCun, Cortes and Burges; commonly said to be available under CC BY-SA 3.0",
    archives: &[
        gzip(
            "train-images-idx3-ubyte.gz",
            Content {
                bytes: 9_912_422,
                sha256: "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            },
            MNIST_SOURCES,
            &[file(
                "train-images-idx3-ubyte",
                TRAIN_IMAGES,
                Some("ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
            )],
        ),
        gzip(
            "train-labels-idx1-ubyte.gz",
            Content {
                bytes: 28_881,
                sha256: "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            },
            MNIST_SOURCES,
            &[file(
                "train-labels-idx1-ubyte",
                TRAIN_LABELS,
                Some("65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
            )],
        ),
        gzip(
            "t10k-images-idx3-ubyte.gz",
            Content {
                bytes: 1_648_877,
                sha256: "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            },
            MNIST_SOURCES,
            &[file(
                "t10k-images-idx3-ubyte",
                TEST_IMAGES,
                Some("0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
            )],
        ),
        gzip(
            "t10k-labels-idx1-ubyte.gz",
            Content {
                bytes: 4_542,
                sha256: "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            },
            MNIST_SOURCES,
            &[file(
                "t10k-labels-idx1-ubyte",
                TEST_LABELS,
                Some("ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
            )],
        ),
    ],
};

const FASHION_SOURCES: &[&str] = &[
    "https://fashion-mnist.s3.eu-central-1.amazonaws.com",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    "https://storage.googleapis.com/tensorflow/tf-keras-datasets",
];

/// Pictures of clothes in the form of MNIST.
pub static FASHION_MNIST: PublicDataSet = PublicDataSet {
    name: "fashion-mnist",
    title: "Fashion-MNIST",
    folder: "fashion-mnist",
    terms: "Xiao, Rasul and Vollgraf (Zalando); MIT licence",
    archives: &[
        gzip(
            "train-images-idx3-ubyte.gz",
            Content {
                bytes: 26_421_880,
                sha256: "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            },
            FASHION_SOURCES,
            &[file("train-images-idx3-ubyte", TRAIN_IMAGES, None)],
        ),
        gzip(
            "train-labels-idx1-ubyte.gz",
            Content {
                bytes: 29_515,
                sha256: "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            },
            FASHION_SOURCES,
            &[file("train-labels-idx1-ubyte", TRAIN_LABELS, None)],
        ),
        gzip(
            "t10k-images-idx3-ubyte.gz",
            Content {
                bytes: 4_422_102,
                sha256: "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            },
            FASHION_SOURCES,
            &[file("t10k-images-idx3-ubyte", TEST_IMAGES, None)],
        ),
        gzip(
            "t10k-labels-idx1-ubyte.gz",
            Content {
                bytes: 5_148,
                sha256: "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            },
            FASHION_SOURCES,
            &[file("t10k-labels-idx1-ubyte", TEST_LABELS, None)],
        ),
    ],
};

/// The authors' own page, which is the only one that has the binary version.
const CIFAR_SOURCES: &[&str] = &["https://www.cs.toronto.edu/~kriz", "http://www.cs.toronto.edu/~kriz"];
/// 10,000 records of a label and 3 x 32 x 32 pixels.
const BATCH: u64 = 10_000 * 3073;

/// CIFAR-10 in its binary version: records of a label and 3 x 32 x 32 pixels.
pub static CIFAR_10: PublicDataSet = PublicDataSet {
    name: "cifar10",
    title: "CIFAR-10",
    folder: "cifar-10",
    terms: "Krizhevsky, Nair and Hinton; no licence is published, the authors ask for a citation",
    archives: &[Archive {
        name: "cifar-10-binary.tar.gz",
        bytes: 170_052_171,
        sha256: "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        sources: CIFAR_SOURCES,
        packing: Packing::TarGzip("cifar-10-batches-bin"),
        files: &[
            file(
                "data_batch_1.bin",
                BATCH,
                Some("cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
            ),
            file(
                "data_batch_2.bin",
                BATCH,
                Some("a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
            ),
            file(
                "data_batch_3.bin",
                BATCH,
                Some("bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
            ),
            file(
                "data_batch_4.bin",
                BATCH,
                Some("014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
            ),
            file(
                "data_batch_5.bin",
                BATCH,
                Some("755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
            ),
            file(
                "test_batch.bin",
                BATCH,
                Some("8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
            ),
        ],
    }],
};

/// CIFAR-100 in its binary version: records of two labels and 3 x 32 x 32 pixels.
pub static CIFAR_100: PublicDataSet = PublicDataSet {
    name: "cifar100",
    title: "CIFAR-100",
    folder: "cifar-100",
    terms: CIFAR_10.terms,
    archives: &[Archive {
        name: "cifar-100-binary.tar.gz",
        bytes: 168_513_733,
        sha256: "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        sources: CIFAR_SOURCES,
        packing: Packing::TarGzip("cifar-100-binary"),
        files: &[
            file(
                "train.bin",
                50_000 * 3074,
                Some("f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"),
            ),
            file(
                "test.bin",
                10_000 * 3074,
                Some("d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"),
            ),
        ],
    }],
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_set_is_complete_and_its_digests_are_digests() {
        let digest = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut seen = BTreeSet::new();
        for set in PublicDataSet::ALL {
            for archive in set.archives {
                assert!(digest(archive.sha256) && seen.insert(archive.sha256), "{}", archive.name);
                assert!(archive.sources.len() >= 2 && archive.sources.iter().all(|url| !url.ends_with('/')));
                for file in archive.files {
                    assert!(
                        file.sha256.is_none_or(|sha256| digest(sha256) && seen.insert(sha256)),
                        "{}",
                        file.name
                    );
                }
            }
        }
        // As published: four files of IDX, six of CIFAR-10, two of CIFAR-100.
        assert_eq!(MNIST.packed_bytes(), 11_594_722);
        assert_eq!(MNIST.unpacked_bytes(), 47_040_016 + 60_008 + 7_840_016 + 10_008);
        assert_eq!(CIFAR_10.unpacked_bytes(), 184_380_000);
        assert_eq!(CIFAR_100.unpacked_bytes(), 184_440_000);
    }

    #[test]
    fn names_may_have_dashes_or_none() {
        let name = |text| PublicDataSet::named(text).map(|set| set.name);
        assert_eq!(
            (name("cifar-10"), name("CIFAR10"), name("cifar_100")),
            (Some("cifar10"), Some("cifar10"), Some("cifar100"))
        );
        assert_eq!(
            (name("fashionmnist"), name("mnist"), name("imagenet")),
            (Some("fashion-mnist"), Some("mnist"), None)
        );
    }
}
